//! What a source file looks like: what `lib.rs` may hold, module headers, names.

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile};

const DECLARE_ONLY: TidyRule = TidyRule {
    name: "declare-only",
    remedy: "lib.rs and mod.rs declare, document and re-export; move the item into a module \
             named after it",
};
const HEADER: TidyRule = TidyRule {
    name: "module-header",
    remedy: "begin the file with `//!`: what it is for, what it owns, what it may not do",
};
const NAME: TidyRule = TidyRule {
    name: "module-name",
    remedy: "name the module after the one noun of the domain that it is about",
};
const TEST_NAME: TidyRule = TidyRule {
    name: "test-name",
    remedy: "write a sentence: `revert_keeps_files_outside_the_worktree`",
};

const BANNED_NAMES: [&str; 9] =
    ["utils", "helpers", "common", "misc", "manager", "base", "new", "next", "v2"];

fn check_declares(source: &SourceFile) -> Vec<TidyFinding> {
    if source.is_test_only || !matches!(source.file_name(), "lib.rs" | "mod.rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    check_items(source, 0, source.code.tokens.len(), &mut findings);
    findings
}

/// Walks the items between two tokens, item by item.
fn check_items(source: &SourceFile, start: usize, end: usize, findings: &mut Vec<TidyFinding>) {
    let code = &source.code;
    let mut index = start;
    while index < end {
        let after = code.text(index + 1);
        match code.text(index) {
            // Attributes, visibility, and the remains of the item before.
            "#" | "!" | "[" | "(" | "pub" | ";" => index = code.tokens[index].close + 1,
            "mod" if code.text(index + 2) == "{" => {
                let open = index + 2;
                if !code.is_in_test(index) {
                    check_items(source, open + 1, code.tokens[open].close, findings);
                }
                index = code.tokens[open].close + 1;
            }
            "mod" | "use" | "extern" => index = end_of_item(source, index, end, &[";"]),
            "const" if !matches!(after, "fn" | "unsafe" | "async" | "extern") => {
                index = end_of_item(source, index, end, &[";"]);
            }
            keyword => {
                let invoked = path_is_invoked(source, index) && keyword != "macro_rules";
                if !invoked && !code.is_in_test(index) {
                    let what = format!("`{keyword} {after}` does not belong here");
                    findings.push(DECLARE_ONLY.report(&source.path, code.tokens[index].line, what));
                }
                index = end_of_item(source, index, end, &[";", "{"]);
            }
        }
    }
}

/// Tells whether a macro is called here: `name!` or `path::name!`.
fn path_is_invoked(source: &SourceFile, mut index: usize) -> bool {
    while source.code.matches_at(index + 1, &[":", ":"]) {
        index += 3;
    }
    source.code.text(index + 1) == "!"
}

/// Returns the place behind the first token at this level that is one of `last`.
fn end_of_item(source: &SourceFile, mut index: usize, end: usize, last: &[&str]) -> usize {
    while index < end {
        let close = source.code.tokens[index].close;
        if last.contains(&source.code.text(index)) {
            return close + 1;
        }
        index = close + 1;
    }
    end
}

fn check_header(source: &SourceFile) -> Vec<TidyFinding> {
    let mut lines = source.text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !is_preamble(line));
    let documented =
        first.and_then(|line| line.strip_prefix("//!")).is_some_and(|text| !text.trim().is_empty());
    if documented {
        return Vec::new();
    }
    vec![HEADER.report(&source.path, 1, "the module does not say what it is for")]
}

fn is_preamble(line: &str) -> bool {
    line.starts_with("#![") || (line.starts_with("//") && !line.starts_with("//!"))
}

fn check_names(source: &SourceFile) -> Vec<TidyFinding> {
    let parts = source.path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    let files = parts.filter(|part| BANNED_NAMES.contains(part)).map(|part| (1, part));
    let code = &source.code;
    let inline = (0..code.tokens.len())
        .filter(|index| code.text(*index) == "mod" && code.text(index + 2) == "{")
        .map(|index| (code.tokens[index].line, code.text(index + 1)))
        .filter(|(_, name)| BANNED_NAMES.contains(name));
    files
        .chain(inline)
        .map(|(line, name)| NAME.report(&source.path, line, format!("`{name}` says nothing")))
        .collect()
}

fn check_test_names(source: &SourceFile) -> Vec<TidyFinding> {
    let code = &source.code;
    let tests = code.attributes().filter(|attribute| code.is_test_attribute(attribute));
    tests
        .filter_map(|attribute| {
            let function = (attribute.close..).take(99).find(|index| code.text(*index) == "fn")?;
            let name = code.text(function + 1);
            let what = format!("`{name}` repeats that it is a test");
            let line = code.tokens[function].line;
            name.starts_with("test_").then(|| TEST_NAME.report(&source.path, line, what))
        })
        .collect()
}

#[test]
fn lib_and_mod_files_only_declare() {
    let findings: Vec<_> =
        repository_files::read_sources().iter().flat_map(check_declares).collect();
    assert_no_findings(&findings);
}

#[test]
fn every_module_says_what_it_is_for() {
    let findings: Vec<_> = repository_files::read_sources().iter().flat_map(check_header).collect();
    assert_no_findings(&findings);
}

#[test]
fn modules_are_named_after_a_noun_of_the_domain() {
    let findings: Vec<_> = repository_files::read_sources().iter().flat_map(check_names).collect();
    assert_no_findings(&findings);
}

#[test]
fn tests_are_named_as_sentences() {
    let findings: Vec<_> =
        repository_files::read_sources().iter().flat_map(check_test_names).collect();
    assert_no_findings(&findings);
}

#[test]
fn code_in_lib_or_mod_file_is_reported() {
    let good = "//! Doc.\n#![warn(x)]\n\nmod a;\npub mod b { pub use c::{D, E}; }\n\
                pub(crate) use a::{B, C};\n#[doc(hidden)]\npub const N: [u8; 2] = [1, 2];\n\
                stamp! { id }\nouter::stamp!(id);\n#[cfg(test)]\nmod tests { fn f() {} }\n";
    let bad = "mod a;\npub struct B;\nimpl B {\n    fn c() {}\n}\nuse d::{E};\n\
               pub const fn f() -> [u8; 1] { [0] }\nmod g {\n    pub enum H { I }\n}\n\
               macro_rules! j { () => {} }\npub type K = u8;\n";
    let check = |path, text| check_declares(&SourceFile::new(path, text));

    assert_lines(&check("crates/core/src/lib.rs", good), &[]);
    assert_lines(&check("crates/core/src/lib.rs", bad), &[2, 3, 7, 9, 11, 12]);
    assert_lines(&check("crates/core/src/turn/mod.rs", "fn f() {}"), &[1]);
    assert_lines(&check("crates/core/src/turn.rs", bad), &[]);
}

#[test]
fn a_missing_module_header_is_found() {
    let check = |text| check_header(&SourceFile::new("crates/core/src/turn.rs", text));

    assert_lines(&check("#![cfg(unix)]\n//! The turn.\n"), &[]);
    assert_lines(&check("use a::B;\n"), &[1]);
    assert_lines(&check("//!\nuse a::B;\n"), &[1]);
    assert_lines(&check("/// Documents the item, not the module.\nuse a::B;\n"), &[1]);
}

#[test]
fn a_name_that_says_nothing_is_found() {
    let check = |path, text| check_names(&SourceFile::new(path, text));

    assert_lines(&check("crates/core/src/utils.rs", ""), &[1]);
    assert_lines(&check("crates/core/src/common/mod.rs", ""), &[1]);
    assert_lines(&check("crates/core/src/turn.rs", "mod a;\nmod helpers { }"), &[2]);
    assert_lines(&check("crates/core/src/turn.rs", "fn new() { next(); }"), &[]);
}

#[test]
fn a_test_called_test_is_found() {
    let text = "#[test]\nfn test_undo() {}\n#[tokio::test(a = 1)]\nasync fn test_redo() {}\n\
                fn test_folder() {}\n#[test]\nfn undo_restores_the_file() {}\n\
                proptest! {\n    #[test]\n    fn test_any(a in 0..1) {}\n}\n";

    assert_lines(&check_test_names(&SourceFile::new("crates/core/src/turn.rs", text)), &[2, 4, 10]);
}
