//! Rules and weaknesses are cited by number; every number exists, and tests prove the rules.

use std::collections::BTreeSet;

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile, TextFile};

const EXISTS: TidyRule = TidyRule {
    name: "rule-exists",
    remedy: "docs/rules.md defines every R and W number; correct the number or add the rule",
};
const PROVEN: TidyRule = TidyRule {
    name: "rule-proven",
    remedy: "write `/// Proves R12.` above the test that would fail without the rule",
};

const PAGE: &str = "docs/rules.md";
/// The heading above the rules about how we test and decide; no test has to cite them.
const PROCESS_HEADING: &str = "## Tests, benchmarks and decisions";

/// Returns the line and the name of every citation, such as `R12`, of one letter.
fn citations(text: &str, letter: char) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = line.split(|other: char| !other.is_ascii_alphanumeric() && other != '_');
        for word in words {
            let digits = word.strip_prefix(letter).unwrap_or_default();
            let is_number = (1..=2).contains(&digits.len())
                && digits.chars().all(|digit| digit.is_ascii_digit());
            if is_number {
                found.push((number + 1, word.to_owned()));
            }
        }
    }
    found
}

/// Returns the rules and weaknesses that the page defines, and those of them that tests must prove.
fn defined(page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut all, mut proven) = (BTreeSet::new(), BTreeSet::new());
    let mut is_process = false;
    for line in page.lines() {
        if line.starts_with("## ") {
            is_process = line == PROCESS_HEADING;
        }
        let start = line.trim_start_matches(['*', '-', '|', ' ']);
        let word = start.split([' ', '*', '|']).next().unwrap_or_default();
        let is_definition =
            line.starts_with("**") || line.starts_with("- **") || line.starts_with("| ");
        for letter in ['R', 'W'] {
            if is_definition && citations(word, letter).len() == 1 {
                all.insert(word.to_owned());
                if letter == 'R' && !is_process {
                    proven.insert(word.to_owned());
                }
            }
        }
    }
    (all, proven)
}

fn check_exists(files: &[TextFile], page: &str) -> Vec<TidyFinding> {
    let (all, _) = defined(page);
    let cites = |file: &&TextFile| {
        (file.path.starts_with("crates/") && file.path.ends_with(".rs"))
            || file.path.ends_with(".md")
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(cites).filter(|file| !file.path.contains("/tidy/")) {
        for (line, name) in citations(&file.text, 'R').into_iter().chain(citations(&file.text, 'W'))
        {
            if !all.contains(&name) {
                findings.push(EXISTS.report(&file.path, line, format!("{name} is not defined")));
            }
        }
    }
    findings
}

/// Returns what the doc comments of tests cite.
fn proven_by_tests(source: &SourceFile) -> BTreeSet<String> {
    let code = &source.code;
    let tests = code.attributes().filter(|attribute| code.is_test_attribute(attribute));
    let lines: Vec<&str> = source.text.lines().collect();
    let mut cited = BTreeSet::new();
    for attribute in tests {
        let first = code.tokens[attribute.start].line - 1;
        let above = lines.get(..first).unwrap_or_default().iter().rev();
        let comment = above.map(|line| line.trim()).take_while(|line| line.starts_with("//"));
        cited.extend(comment.flat_map(|line| citations(line, 'R')).map(|(_, name)| name));
    }
    cited
}

fn check_proven(sources: &[SourceFile], page: &str) -> Vec<TidyFinding> {
    let (_, wanted) = defined(page);
    let cited: BTreeSet<String> = sources.iter().flat_map(proven_by_tests).collect();
    let missing = wanted.difference(&cited);
    missing.map(|name| PROVEN.report(PAGE, 1, format!("no test cites {name}"))).collect()
}

fn read_page() -> String {
    repository_files::find_text(PAGE).expect("docs/rules.md is there")
}

#[test]
fn every_cited_rule_and_weakness_is_defined() {
    let page = read_page();
    let (all, _) = defined(&page);
    assert!(all.contains("R1") && all.contains("W1"), "the page was not understood: {all:?}");
    assert_no_findings(&check_exists(&repository_files::read_files(), &page));
}

#[test]
fn every_rule_is_proven_by_a_test() {
    assert_no_findings(&check_proven(&repository_files::read_sources(), &read_page()));
}

#[test]
fn unknown_and_unproven_rules_are_found() {
    let page = "**R1 A.** x\n**R2 B.** x\n\n## Tests, benchmarks and decisions\n\n**R3 C.** x\n\n| W1 | y |";
    let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
    let files = [file("crates/a/src/b.rs", "// R1 and R9\n// W1, W2"), file("x.txt", "R9")];
    assert_lines(&check_exists(&files, page), &[1, 2]);
    let source = SourceFile::new(
        "crates/a/tests/b.rs",
        "/// Proves R1.\n#[test]\nfn a() {}\n\n/// R2\nfn b() {}",
    );
    let findings = check_proven(&[source], page);
    assert!(matches!(&findings[..], [one] if one.what.contains("R2")), "{findings:?}");
}
