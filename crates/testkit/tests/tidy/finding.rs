//! What a rule reports, and how exceptions are made.

use std::fmt;

/// A rule of the repository: its name and what to do when it is broken.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) remedy: &'static str,
}

impl Rule {
    /// Reports that `what` breaks this rule at `line` of `file`.
    pub(crate) fn at(&self, file: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            file: file.to_owned(),
            line,
            rule: self.name,
            what: what.into(),
            remedy: self.remedy,
        }
    }
}

/// One place that breaks a rule.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, rule, what, remedy } = self;
        write!(out, "{file}:{line}: {rule}: {what}\n    remedy: {remedy}")
    }
}

/// A file that may break one rule, and why.
pub(crate) struct Exception {
    pub(crate) file: &'static str,
    pub(crate) reason: &'static str,
}

/// Removes the findings that an exception covers; an exception that covers nothing is a finding.
pub(crate) fn excuse(
    rule: &Rule,
    mut findings: Vec<Finding>,
    exceptions: &[Exception],
) -> Vec<Finding> {
    for exception in exceptions {
        let before = findings.len();
        findings.retain(|finding| finding.file != exception.file);
        if findings.len() == before {
            let what = format!("the exception ({}) is no longer needed", exception.reason);
            findings.push(Finding {
                remedy: "remove the line from the rule's table of exceptions",
                ..rule.at(exception.file, 1, what)
            });
        }
    }
    findings
}

/// Fails the test with every finding, one below the other.
#[track_caller]
pub(crate) fn assert_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} finding(s)\n{}", lines.len(), lines.join("\n"));
}

/// Fails the companion test unless the sample was found guilty at exactly these lines.
#[track_caller]
pub(crate) fn assert_lines(findings: &[Finding], lines: &[usize]) {
    let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
    assert_eq!(found, lines, "{findings:#?}");
}

const SAMPLE: Rule = Rule { name: "sample", remedy: "none" };

#[test]
fn an_exception_covers_its_file_only() {
    let findings = vec![SAMPLE.at("a.rs", 3, "x"), SAMPLE.at("b.rs", 4, "x")];
    let exceptions = [Exception { file: "a.rs", reason: "sample" }];

    assert_lines(&excuse(&SAMPLE, findings, &exceptions), &[4]);
}

#[test]
fn an_exception_that_covers_nothing_is_reported() {
    let exceptions = [Exception { file: "gone.rs", reason: "sample" }];

    assert_lines(&excuse(&SAMPLE, Vec::new(), &exceptions), &[1]);
}

#[test]
fn a_finding_names_file_line_rule_and_remedy() {
    let text = SAMPLE.at("a.rs", 3, "it is wrong").to_string();

    assert_eq!(text, "a.rs:3: sample: it is wrong\n    remedy: none");
}

#[test]
#[should_panic(expected = "1 finding(s)\na.rs:3: sample")]
fn a_finding_fails_the_test() {
    assert_none(&[SAMPLE.at("a.rs", 3, "it is wrong")]);
}
