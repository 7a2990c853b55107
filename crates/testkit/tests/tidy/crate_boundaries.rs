//! What a crate may not know, found in its code.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::crate_table::{
    Boundary, BoundaryException, CAPABILITIES, CRATES, Capability, CrateRow, DEVELOPMENT_CRATES,
};
use crate::finding::{TidyFinding, TidyRule, assert_no_findings};
use crate::repository_files::{self, SourceFile};
use crate::rust_tokens::TokenizedSource;

const BOUNDARY: TidyRule = TidyRule {
    name: "crate-boundary",
    remedy: "take the value from the caller, or call the crate that owns the capability; a deliberate exception \
             is listed with its reason in crates/testkit/tests/tidy/crate_table.rs",
};
const UNUSED_EXCEPTION: TidyRule = TidyRule {
    name: "crate-boundary",
    remedy: "remove the file from the exceptions in crates/testkit/tests/tidy/crate_table.rs, then run \
             `UPDATE_DOCS=1 cargo nextest run -p turnstone-testkit table`",
};

/// Tells whether the token at `index` goes on as `::second`, also as `::{second, …}`.
fn names_path(code: &TokenizedSource, index: usize, second: &str) -> bool {
    if !code.matches_at(index + 1, &[":", ":"]) {
        return false;
    }
    let open = index + 3;
    if code.text(open) != "{" {
        return code.text(open) == second;
    }
    (open + 1..code.tokens[open].close).any(|inner| {
        code.tokens[inner].parent == Some(open)
            && code.text(inner) == second
            && matches!(code.text_before(inner, 1), "{" | ",")
    })
}

/// Tells whether the token at `index` is the first part of a path or an import.
fn names_library(code: &TokenizedSource, index: usize) -> bool {
    let is_first = !matches!(code.text_before(index, 1), ":" | ".");
    let is_path = code.matches_at(index + 1, &[":", ":"]);
    let is_import = code.text_before(index, 1) == "use" || code.text_before(index, 1) == "crate";
    is_first && (is_path || is_import)
}

/// Returns what at `index` needs the capability, as written.
fn uses_capability(
    code: &TokenizedSource,
    index: usize,
    capability: &Capability,
) -> Option<String> {
    let token = &code.tokens[index];
    if token.literal {
        // A doc comment is an attribute with a literal; it may explain what the code may not do.
        let is_comment = code.text_before(index, 2) == "doc";
        let part = capability.literals.iter().find(|part| token.text.contains(**part));
        return part.filter(|_| !is_comment).map(|_| token.text.clone());
    }
    let text = token.text.as_str();
    let library = capability.libraries.iter().find(|name| {
        let is_named = name.len() == text.len() && name.replace('-', "_") == text;
        is_named && names_library(code, index)
    });
    let path = capability.paths.iter().find(|path| {
        let parts = path.split_once("::");
        parts.is_some_and(|(first, second)| first == text && names_path(code, index, second))
    });
    let (before, after) = (code.text_before(index, 1), code.text(index + 1));
    let is_method = before == "." && after == "(";
    let method = capability.methods.iter().find(|name| **name == text && is_method);
    let is_macro = after == "!" && code.text(index + 2) != "=";
    let macro_name = capability.macros.iter().find(|name| **name == text && is_macro);
    let is_word = !matches!(before, "." | "'" | "fn");
    let word = capability.words.iter().find(|word| **word == text && is_word);
    library.or(path).or(method).or(macro_name).or(word).map(|&found| found.to_owned())
}

/// Returns the lines of a file that use the capability, with what they use.
fn uses_in_file(source: &SourceFile, capability: &Capability) -> Vec<(usize, String)> {
    let code = &source.code;
    let used = (0..code.tokens.len()).filter_map(|index| {
        let used = uses_capability(code, index, capability)?;
        let is_shipped = !source.is_test_only && !code.is_in_test(index);
        is_shipped.then_some((code.tokens[index].line, used))
    });
    let lines: BTreeSet<(usize, String)> = used.collect();
    lines.into_iter().collect()
}

fn covers(file: &str, place: &str) -> bool {
    if file.ends_with('/') { place.starts_with(file) } else { place == file }
}

fn check_boundary(row: &CrateRow, boundary: &Boundary, sources: &[SourceFile]) -> Vec<TidyFinding> {
    let folder = format!("crates/{}/src/", row.name);
    let excepted: Vec<&str> =
        boundary.exceptions.iter().flat_map(|exception| exception.files).copied().collect();
    let mut needed: BTreeSet<&str> = BTreeSet::new();
    let mut findings = Vec::new();
    let capability = boundary.capability;
    for source in sources {
        let Some(place) = source.path.strip_prefix(&folder) else { continue };
        let uses = uses_in_file(source, capability);
        let cover = excepted.iter().find(|file| covers(file, place));
        match cover {
            Some(file) if !uses.is_empty() => {
                needed.insert(file);
            }
            Some(_) => {}
            None => findings.extend(uses.into_iter().map(|(line, used)| {
                let what = format!("`{}` may not know {}: `{used}`", row.name, capability.name);
                BOUNDARY.report(&source.path, line, what)
            })),
        }
    }
    let unused = excepted.iter().filter(|file| !needed.contains(*file));
    findings.extend(unused.map(|file| {
        let what = format!("the exception for {} is no longer needed", capability.name);
        UNUSED_EXCEPTION.report(&format!("{folder}{file}"), 1, what)
    }));
    findings
}

fn check_rows(rows: &[CrateRow], sources: &[SourceFile]) -> Vec<TidyFinding> {
    let cells = rows.iter().flat_map(|row| row.boundaries.iter().map(move |one| (row, one)));
    cells.flat_map(|(row, boundary)| check_boundary(row, boundary, sources)).collect()
}

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str =
    "<!-- The table of crates: generated from crates/testkit/tests/tidy/crate_table.rs. -->\n";
const END: &str = "<!-- End of the table of crates. -->\n";

/// Writes the table of crates and the table of exceptions as they stand in ARCHITECTURE.md.
fn print_table() -> String {
    let mut text = String::from("| crate | purpose | uses | may not know |\n|---|---|---|---|\n");
    let quoted = |names: &[&str]| -> String {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        if names.is_empty() { "–".to_owned() } else { names.join(", ") }
    };
    let mut exceptions = String::new();
    for row in &CRATES {
        let names: Vec<String> = row
            .boundaries
            .iter()
            .map(|one| {
                let mark = if one.exceptions.is_empty() { "" } else { "\\*" };
                format!("{}{mark}", one.capability.name)
            })
            .collect();
        let CrateRow { name, purpose, uses, .. } = row;
        writeln!(text, "| `{name}` | {purpose} | {} | {} |", quoted(uses), names.join(", "))
            .expect("a string takes all text");
        for boundary in row.boundaries {
            for BoundaryException { files, reason } in boundary.exceptions {
                let capability = boundary.capability.name;
                writeln!(exceptions, "| `{name}` | {capability} | {} | {reason} |", quoted(files))
                    .expect("a string takes all text");
            }
        }
    }
    for (name, purpose) in DEVELOPMENT_CRATES {
        writeln!(text, "| `{name}` | {purpose}; not shipped | all | |")
            .expect("a string takes all text");
    }
    format!(
        "{text}\nAn asterisk marks an exception:\n\n| crate | knows | in | because |\n|---|---|---|---|\n{exceptions}"
    )
}

/// Returns the page with the generated part replaced, or nothing if the marks are missing.
fn replace_table(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[test]
fn crates_know_only_what_the_table_allows() {
    assert_no_findings(&check_rows(&CRATES, &repository_files::read_sources()));
}

#[test]
fn architecture_prints_the_table_of_crates() {
    let page = repository_files::find_text(PAGE).expect("ARCHITECTURE.md is there");
    let expected = replace_table(&page, &print_table()).expect("the marks of the table are there");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(repository_files::root().join(PAGE), &expected).expect("it can be written");
        return;
    }
    assert!(page == expected, "the table of crates is stale; run this test with UPDATE_DOCS=1");
}

#[test]
fn stale_table_is_noticed() {
    let page = format!("# A\n{BEGIN}old\n{END}rest\n");

    assert_eq!(replace_table(&page, "new\n"), Some(format!("# A\n{BEGIN}\nnew\n\n{END}rest\n")));
    assert_eq!(replace_table("# A\n", "new\n"), None);
}

/// Each way to use each capability, as code; every one must be found.
fn violations(capability: &Capability) -> Vec<String> {
    let libraries = capability.libraries.iter().map(|name| name.replace('-', "_"));
    let libraries = libraries.flat_map(|name| {
        [
            format!("use {name};"),
            format!("use {name}::x;"),
            format!("fn f() {{ call({name}::x()); }}"),
        ]
    });
    let paths = capability.paths.iter().filter_map(|path| path.split_once("::"));
    let paths = paths.flat_map(|(first, second)| {
        [
            format!("fn f() {{ a::{first}::{second}(); }}"),
            format!("use {first}::{{x::y, {second}}};"),
        ]
    });
    let methods = capability.methods.iter().map(|name| format!("fn f() {{ x.{name}(); }}"));
    let macros = capability.macros.iter().map(|name| format!("fn f() {{ {name}!(); }}"));
    let words = capability.words.iter().map(|word| format!("fn f() {{ {word} {{}} }}"));
    let literals =
        capability.literals.iter().map(|part| format!("const A: &str = \"a {part} b\";"));
    let code = libraries.chain(paths).chain(methods).chain(macros).chain(words);
    code.chain(literals).collect()
}

#[test]
fn every_forbidden_use_is_found_in_every_cell() {
    for row in &CRATES {
        for Boundary { capability, .. } in row.boundaries {
            let boundary = Boundary { capability, exceptions: &[] };
            let samples = violations(capability);
            assert!(!samples.is_empty(), "{} cannot be recognised", capability.name);
            for text in samples {
                let path = format!("crates/{}/src/sample.rs", row.name);
                let check = |path: &str, text: &str| {
                    check_boundary(row, &boundary, &[SourceFile::new(path, text)]).len()
                };
                assert_eq!(check(&path, &text), 1, "{}: {text}", capability.name);
                let in_test = format!("#[cfg(test)]\nmod tests {{ {text} }}");
                assert_eq!(check(&path, &in_test), 0, "{text}");
                assert_eq!(check("crates/other/src/sample.rs", &text), 0, "{text}");
            }
        }
    }
}

#[test]
fn similar_code_is_no_use_of_a_capability() {
    let text = "// std::fs, rusqlite, tokio\nfn f(http: u8) { let rand = a.rand; b::std::time(); }\n\
                use std::{collections::{fs, env}, time};\nfn env() { x.async_call(); elapsed(); }\n";
    let source = SourceFile::new("crates/core/src/sample.rs", text);
    let found: Vec<_> =
        CAPABILITIES.iter().flat_map(|capability| uses_in_file(&source, capability)).collect();

    assert_eq!(found, []);
}

#[test]
fn exception_covers_its_files_and_must_be_needed() {
    let clock = CAPABILITIES.into_iter().find(|one| one.name == "clock").expect("it is listed");
    let row = &CRATES[0];
    const EXCEPTIONS: &[BoundaryException] =
        &[BoundaryException { files: &["time/", "clock.rs"], reason: "sample" }];
    let boundary = Boundary { capability: clock, exceptions: EXCEPTIONS };
    let file = |path: &str| {
        SourceFile::new(&format!("crates/core/src/{path}"), "fn f() { Instant::now(); }")
    };
    let check = |sources: &[SourceFile]| check_boundary(row, &boundary, sources).len();

    assert_eq!(check(&[file("time/wait.rs"), file("clock.rs")]), 0);
    assert_eq!(check(&[file("time/wait.rs"), file("clock.rs"), file("other.rs")]), 1);
    assert_eq!(check(&[file("clock.rs")]), 1);
}
