//! How long things may be: files, functions, the list of dependencies.

use crate::finding::{
    RuleException, TidyFinding, TidyRule, apply_exceptions, assert_lines, assert_no_findings,
};
use crate::repository_files::{self, SourceFile};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 60;
/// Packages in `Cargo.lock`. Raising it is a decision: say in the commit what the new ones give us.
const LOCKED_PACKAGES: usize = 420;

const FILE: TidyRule = TidyRule {
    name: "file-length",
    remedy: "split the file along the nouns in it; a table of flags or a migration may be \
             listed in LONG_FILES with a reason",
};
const FUNCTION: TidyRule = TidyRule {
    name: "function-length",
    remedy: "name the steps: one function per sentence of the doc comment",
};
const LOCK: TidyRule = TidyRule {
    name: "lock-file-ceiling",
    remedy: "drop a dependency or a feature, or raise LOCKED_PACKAGES with a reason",
};

/// Files that may be longer: only migrations and tables of flags belong here.
const LONG_FILES: &[RuleException] = &[];

fn check_file(source: &SourceFile) -> Vec<TidyFinding> {
    let lines = source.text.lines().count() - source.code.test_lines();
    if source.is_test_only || lines <= FILE_LINES {
        return Vec::new();
    }
    let what = format!("{lines} lines without tests, {FILE_LINES} are allowed");
    vec![FILE.report(&source.path, FILE_LINES + 1, what)]
}

fn check_functions(source: &SourceFile) -> Vec<TidyFinding> {
    let tokens = &source.code.tokens;
    let functions = source.shipped_tokens().filter(|index| {
        let name = source.code.text(index + 1);
        source.code.text(*index) == "fn"
            && name.starts_with(|c: char| c.is_alphabetic() || c == '_')
    });
    functions
        .filter_map(|index| {
            let first = tokens[index].line;
            let lines = tokens[end_of_function(source, index)?].line + 1 - first;
            let what = || {
                let name = source.code.text(index + 1);
                format!("`{name}` has {lines} lines, {FUNCTION_LINES} are allowed")
            };
            (lines > FUNCTION_LINES).then(|| FUNCTION.report(&source.path, first, what()))
        })
        .collect()
}

/// Returns the token that closes the body, or nothing for a function without one.
fn end_of_function(source: &SourceFile, start: usize) -> Option<usize> {
    let tokens = &source.code.tokens;
    let mut index = start;
    while index < tokens.len() {
        match source.code.text(index) {
            "{" => return Some(tokens[index].close),
            ";" | "}" | ")" => return None,
            _ => index = tokens[index].close + 1,
        }
    }
    None
}

fn check_lock(lock: &str) -> Vec<TidyFinding> {
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    if packages <= LOCKED_PACKAGES {
        return Vec::new();
    }
    let what = format!("{packages} packages, {LOCKED_PACKAGES} are allowed");
    vec![LOCK.report("Cargo.lock", 1, what)]
}

#[test]
fn source_files_are_short() {
    let findings = repository_files::read_sources().iter().flat_map(check_file).collect();
    assert_no_findings(&apply_exceptions(&FILE, findings, LONG_FILES));
}

#[test]
fn functions_are_short() {
    let findings: Vec<_> =
        repository_files::read_sources().iter().flat_map(check_functions).collect();
    assert_no_findings(&findings);
}

#[test]
fn the_lock_file_stays_under_its_ceiling() {
    let lock = repository_files::find_text("Cargo.lock").expect("Cargo.lock is in the repository");
    assert!(lock.contains("[[package]]\nname = \"turnstone\"\n"), "Cargo.lock is not ours");
    assert_no_findings(&check_lock(&lock));
}

#[test]
fn a_long_file_is_found() {
    let line = "const A: u8 = 0;\n";
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", line.repeat(400));
    let allowed = line.repeat(500) + &tests;
    let bad = line.repeat(501) + &tests;

    assert_lines(&check_file(&SourceFile::new("crates/core/src/turn.rs", &allowed)), &[]);
    assert_lines(&check_file(&SourceFile::new("crates/core/src/turn.rs", &bad)), &[501]);
    assert_lines(&check_file(&SourceFile::new("crates/core/tests/turn.rs", &bad)), &[]);
}

#[test]
fn a_long_function_is_found() {
    let function = |name: &str, lines: usize| {
        format!("    fn {name}(list: [u8; 2])\n    {{\n{}    }}\n", "call();\n".repeat(lines - 3))
    };
    let text = format!(
        "impl A {{\n{}{}    #[test]\n{}}}\ntrait B {{ fn c(); }}\n",
        function("allowed", 60),
        function("bad", 61),
        function("exempt", 99),
    );

    assert_lines(&check_functions(&SourceFile::new("crates/core/src/turn.rs", &text)), &[62]);
    assert_lines(&check_functions(&SourceFile::new("crates/core/tests/turn.rs", &text)), &[]);
}

#[test]
fn a_long_lock_file_is_found() {
    assert_lines(&check_lock(&"[[package]]\n".repeat(LOCKED_PACKAGES)), &[]);
    assert_lines(&check_lock(&"[[package]]\n".repeat(LOCKED_PACKAGES + 1)), &[1]);
}
