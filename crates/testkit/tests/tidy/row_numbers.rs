//! Row numbers of the store are types: a function does not take two bare numbers that a caller could
//! pass in the wrong order.

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile};

const BARE_NUMBERS: TidyRule = TidyRule {
    name: "bare-numbers",
    remedy: "give each number the type of what it counts: `SessionNum`, `MessageNum`, `PartNum`, `TurnNum` \
             (crates/store/src/table_row_ids.rs), `LogCursor`, `SessionSeq`, `EpochMillis`, or a `Range` for two \
             ends of one thing; a function that must take two is listed in EXCEPTIONS with the reason",
};

const STORE: &str = "crates/store/src/";

/// File and function that take several bare numbers, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "crates/store/src/read/session_at_boundary.rs",
    "push",
    "the entity of an event is of the table its kind says, and the other number is a length",
)];

/// Finds functions with two or more parameters of type `i64`, inside of tuples and options too.
fn check_parameters(source: &SourceFile) -> Vec<TidyFinding> {
    if !source.path.starts_with(STORE) {
        return Vec::new();
    }
    let code = &source.code;
    let mut findings = Vec::new();
    for index in source.shipped_tokens().filter(|index| code.text(*index) == "fn") {
        let name = code.text(index + 1);
        let Some(open) = (index..code.tokens.len()).find(|at| code.text(*at) == "(") else {
            continue;
        };
        let bare = (open..code.tokens[open].close).filter(|at| code.text(*at) == "i64").count();
        let is_listed =
            EXCEPTIONS.iter().any(|(file, listed, _)| *file == source.path && *listed == name);
        if bare > 1 && !is_listed {
            let what = format!("`{name}` takes {bare} bare `i64`");
            findings.push(BARE_NUMBERS.report(&source.path, code.tokens[index].line, what));
        }
    }
    findings
}

#[test]
fn functions_of_the_store_take_typed_row_numbers() {
    let sources = repository_files::read_sources();
    let findings: Vec<_> = sources.iter().flat_map(check_parameters).collect();
    assert_no_findings(&findings);
}

#[test]
fn two_bare_numbers_are_found() {
    let text = "fn a(session: i64, part: i64) {}\nfn b(session: SessionNum, at: i64) -> (i64, i64) {}\n\
                fn c(\n    (low, high): (i64, i64),\n) {}\nfn d(at: Option<i64>, rest: &[i64]) {}\n\
                #[cfg(test)]\nmod tests { fn e(a: i64, b: i64) {} }\n";

    assert_lines(&check_parameters(&SourceFile::new("crates/store/src/tx.rs", text)), &[1, 3, 6]);
    assert_lines(&check_parameters(&SourceFile::new("crates/core/src/time.rs", text)), &[]);
}
