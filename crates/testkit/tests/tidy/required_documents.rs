//! The documents every reader may rely on.

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, TextFile};

const PRESENT: TidyRule = TidyRule {
    name: "root-documents",
    remedy: "write the document; an honest short one is better than none",
};
const DECISION: TidyRule = TidyRule {
    name: "decision-page",
    remedy: "a page of docs/decisions/ has `## Context`, `## Choice`, `## What we gave up`",
};

const DOCUMENTS: [&str; 5] =
    ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SHORTCOMINGS.md"];
const HEADINGS: [&str; 3] = ["## Context", "## Choice", "## What we gave up"];

fn check_present(files: &[TextFile]) -> Vec<TidyFinding> {
    let written =
        |path: &str| files.iter().any(|file| file.path == path && !file.text.trim().is_empty());
    let missing = DOCUMENTS.iter().filter(|path| !written(path));
    missing.map(|path| PRESENT.report(path, 1, "it is missing or empty")).collect()
}

/// Checks the pages; `README.md` is their table of contents, not a decision.
fn check_decisions(files: &[TextFile]) -> Vec<TidyFinding> {
    let pages: Vec<&TextFile> = files
        .iter()
        .filter(|file| file.path.starts_with("docs/decisions/") && file.path.ends_with(".md"))
        .filter(|file| file.path != "docs/decisions/README.md")
        .collect();
    if pages.is_empty() {
        return vec![DECISION.report("docs/decisions/", 1, "there is no page")];
    }
    let lacks =
        |file: &TextFile, heading: &str| !file.text.lines().any(|line| line.trim_end() == heading);
    let missing = pages.iter().flat_map(|file| {
        HEADINGS
            .iter()
            .filter(move |heading| lacks(file, heading))
            .map(move |heading| (file, heading))
    });
    missing
        .map(|(file, heading)| DECISION.report(&file.path, 1, format!("`{heading}` is missing")))
        .collect()
}

#[test]
fn the_documents_of_the_root_are_written() {
    assert_no_findings(&check_present(&repository_files::read_files()));
}

#[test]
fn every_decision_says_what_it_cost() {
    assert_no_findings(&check_decisions(&repository_files::read_files()));
}

fn file(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_missing_document_is_found() {
    let mut files: Vec<TextFile> = DOCUMENTS.iter().map(|path| file(path, "text")).collect();
    assert_lines(&check_present(&files), &[]);

    files[0] = file(DOCUMENTS[0], " \n");
    files.remove(1);
    assert_lines(&check_present(&files), &[1, 1]);
}

#[test]
fn a_decision_without_its_cost_is_found() {
    let good = "# Title\n\n## Context\n\n## Choice\n\n## What we gave up\n";
    let bad = "# Title\n\n## Context\n\n## Choice\n";
    let page = |text| check_decisions(&[file("docs/decisions/0001-a.md", text)]);

    assert_lines(&page(good), &[]);
    assert_lines(&page(bad), &[1]);
    assert_lines(&check_decisions(&[file("docs/decisions/README.md", "")]), &[1]);
}
