//! What a rule reports, and how exceptions are made.

use std::fmt;

/// A rule of the repository: its name and what to do when it is broken.
pub(crate) struct TidyRule {
    pub(crate) name: &'static str,
    pub(crate) remedy: &'static str,
}

impl TidyRule {
    /// Reports that `what` breaks this rule at `line` of `file`.
    pub(crate) fn report(&self, file: &str, line: usize, what: impl Into<String>) -> TidyFinding {
        TidyFinding {
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
pub(crate) struct TidyFinding {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, rule, what, remedy } = self;
        write!(out, "{file}:{line}: {rule}: {what}\n    remedy: {remedy}")
    }
}

/// A file that may break one rule, and why.
pub(crate) struct RuleException {
    pub(crate) file: &'static str,
    pub(crate) reason: &'static str,
}

/// Removes the findings that an exception covers; an exception that covers nothing is a finding.
pub(crate) fn apply_exceptions(
    rule: &TidyRule,
    mut findings: Vec<TidyFinding>,
    exceptions: &[RuleException],
) -> Vec<TidyFinding> {
    for exception in exceptions {
        let before = findings.len();
        findings.retain(|finding| finding.file != exception.file);
        if findings.len() == before {
            let what = format!("the exception ({}) is no longer needed", exception.reason);
            findings.push(TidyFinding {
                remedy: "remove the line from the rule's table of exceptions",
                ..rule.report(exception.file, 1, what)
            });
        }
    }
    findings
}

/// Fails the test with every finding, one below the other.
#[track_caller]
pub(crate) fn assert_no_findings(findings: &[TidyFinding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} finding(s)\n{}", lines.len(), lines.join("\n"));
}

/// Fails the companion test unless the sample was found guilty at exactly these lines.
#[track_caller]
pub(crate) fn assert_lines(findings: &[TidyFinding], lines: &[usize]) {
    let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
    assert_eq!(found, lines, "{findings:#?}");
}

const SAMPLE: TidyRule = TidyRule { name: "sample", remedy: "none" };

#[test]
fn exception_covers_only_its_file() {
    let findings = vec![SAMPLE.report("a.rs", 3, "x"), SAMPLE.report("b.rs", 4, "x")];
    let exceptions = [RuleException { file: "a.rs", reason: "sample" }];

    assert_lines(&apply_exceptions(&SAMPLE, findings, &exceptions), &[4]);
}

#[test]
fn unused_exception_is_reported() {
    let exceptions = [RuleException { file: "gone.rs", reason: "sample" }];

    assert_lines(&apply_exceptions(&SAMPLE, Vec::new(), &exceptions), &[1]);
}

#[test]
fn a_finding_names_file_line_rule_and_remedy() {
    let text = SAMPLE.report("a.rs", 3, "it is wrong").to_string();

    assert_eq!(text, "a.rs:3: sample: it is wrong\n    remedy: none");
}

#[test]
#[should_panic(expected = "1 finding(s)\na.rs:3: sample")]
fn a_finding_fails_the_test() {
    assert_no_findings(&[SAMPLE.report("a.rs", 3, "it is wrong")]);
}
