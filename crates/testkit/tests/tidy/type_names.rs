//! Names of types: one name means one thing.

use std::collections::BTreeMap;

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile};

const UNIQUE: TidyRule = TidyRule {
    name: "unique-type-name",
    remedy: "name each type after what it is (`SessionRow`, `ImportReport`); docs/glossary.md has the nouns",
};
/// Names that may be defined more than once, and why.
const REPEATED_NAMES: [(&str, &str); 2] =
    [("Options", "every crate has options"), ("Result", "every crate has an error of its own")];

/// Returns the types that a file defines outside of functions and impl blocks: line and name.
fn defined_types(source: &SourceFile) -> Vec<(usize, String)> {
    let code = &source.code;
    let defines = |index: &usize| {
        let token = &code.tokens[*index];
        token.parent.is_none()
            && matches!(token.text.as_str(), "struct" | "enum" | "trait" | "type" | "union")
            && code.text(index + 1).starts_with(|letter: char| letter.is_ascii_uppercase())
    };
    let found = (0..code.tokens.len()).filter(defines);
    found.map(|index| (code.tokens[index].line, code.text(index + 1).to_owned())).collect()
}

fn check_unique(sources: &[SourceFile]) -> Vec<TidyFinding> {
    let mut known: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_shipped()) {
        for (line, name) in defined_types(source) {
            known.entry(name).or_default().push((&source.path, line));
        }
    }
    let mut findings = Vec::new();
    for (name, places) in &known {
        let is_excepted = REPEATED_NAMES.iter().any(|(excepted, _)| excepted == name);
        if let [(first, _), others @ ..] = &places[..]
            && !is_excepted
        {
            findings.extend(others.iter().map(|(path, line)| {
                UNIQUE.report(path, *line, format!("`{name}` is defined in {first} too"))
            }));
        }
    }
    let is_repeated = |name: &str| known.get(name).is_some_and(|places| places.len() > 1);
    let unused = REPEATED_NAMES.iter().filter(|(name, _)| !is_repeated(name));
    findings.extend(unused.map(|(name, why)| {
        UNIQUE.report("crates", 1, format!("the exception `{name}` ({why}) is no longer needed"))
    }));
    findings
}

#[test]
fn no_type_name_is_defined_twice() {
    assert_no_findings(&check_unique(&repository_files::read_sources()));
}

#[test]
fn second_definition_and_unused_exceptions_are_found() {
    let one = SourceFile::new("crates/core/src/a.rs", "pub struct Row;\nfn f() { struct Inner; }");
    let other = SourceFile::new("crates/store/src/b.rs", "\nenum Row {}\nstruct Inner;");
    let bench = SourceFile::new("crates/bench/src/c.rs", "struct Row;");
    let findings = check_unique(&[one, other, bench]);
    let (found, unused) = findings.split_at(1);
    assert_lines(found, &[2]);
    assert_eq!(unused.len(), REPEATED_NAMES.len());
}
