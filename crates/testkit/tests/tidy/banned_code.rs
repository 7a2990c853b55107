//! What may not stand in the code, wherever it compiles.

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile};

const ALLOW: TidyRule = TidyRule {
    name: "no-allow",
    remedy: "write `#[expect(lint, reason = \"…\")]`: it fails when it is no longer needed",
};
const UNFINISHED: TidyRule = TidyRule {
    name: "no-unfinished",
    remedy: "finish it, or return an error that says what is missing and list it in \
             SHORTCOMINGS.md",
};
const IGNORED: TidyRule = TidyRule {
    name: "no-ignored-test",
    remedy: "make the test pass or delete it; a test that needs a tool fails without it",
};
const UNWRAP: TidyRule = TidyRule {
    name: "no-unwrap",
    remedy: "return the error with `?`; for an invariant, `expect` with the reason it holds",
};
const ONE_GIT: TidyRule = TidyRule {
    name: "one-git",
    remedy: "ask `turnstone_process::Git`: one function builds every environment of git",
};

/// The only shipped files that start a program: the supervisor and what it supervises, git, the pager, the tour.
const FILES_THAT_START_PROGRAMS: [&str; 7] = [
    "crates/process/src/git/run.rs",
    "crates/process/src/launcher.rs",
    "crates/process/src/pager.rs",
    "crates/process/src/replace_process.rs",
    "crates/process/src/supervisor_client.rs",
    "crates/process/src/launcher_start.rs",
    "crates/cli/src/command/tour/sandbox.rs",
];
/// The only file that sets a variable of git.
const GIT_ENVIRONMENT: &str = "crates/process/src/git/environment.rs";

fn check_allow(source: &SourceFile) -> Vec<TidyFinding> {
    let code = &source.code;
    let found = code.attributes().filter(|attribute| {
        (attribute.open..attribute.close).any(|index| code.matches_at(index, &["allow", "("]))
    });
    found
        .map(|attribute| {
            let line = code.tokens[attribute.start].line;
            ALLOW.report(&source.path, line, "a lint is switched off for good")
        })
        .collect()
}

fn check_unfinished(source: &SourceFile) -> Vec<TidyFinding> {
    let code = &source.code;
    let found = (0..code.tokens.len()).filter(|index| {
        matches!(code.text(*index), "todo" | "unimplemented") && code.text(index + 1) == "!"
    });
    found
        .map(|index| {
            let what = format!("`{}!` panics", code.text(index));
            UNFINISHED.report(&source.path, code.tokens[index].line, what)
        })
        .collect()
}

fn check_ignored(source: &SourceFile) -> Vec<TidyFinding> {
    let code = &source.code;
    let found = code.attributes().filter(|attribute| {
        let path = code.path(attribute);
        let inside = attribute.open + 1..attribute.close;
        path == "ignore"
            || (path == "cfg_attr" && inside.into_iter().any(|index| code.text(index) == "ignore"))
    });
    found
        .map(|attribute| {
            let line = code.tokens[attribute.start].line;
            IGNORED.report(&source.path, line, "the test does not run")
        })
        .collect()
}

fn check_unwrap(source: &SourceFile) -> Vec<TidyFinding> {
    let code = &source.code;
    let found = source.shipped_tokens().filter(|index| {
        matches!(code.text(*index), "unwrap" | "unwrap_err")
            && matches!(code.text_before(*index, 1), "." | ":")
    });
    found
        .map(|index| {
            let what = format!("`{}` outside of tests", code.text(index));
            UNWRAP.report(&source.path, code.tokens[index].line, what)
        })
        .collect()
}

/// Finds code that could start git without the one environment.
fn check_one_git(source: &SourceFile) -> Vec<TidyFinding> {
    let (path, code) = (source.path.as_str(), &source.code);
    if path.starts_with("crates/testkit/") || path.starts_with("crates/bench/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for index in source.shipped_tokens() {
        let line = code.tokens[index].line;
        let starts = code.matches_at(index, &["Command", ":", ":", "new"]);
        if starts && !FILES_THAT_START_PROGRAMS.contains(&path) {
            findings.push(ONE_GIT.report(path, line, "a program is started here"));
        }
        if starts && code.text(index + 5) == "\"git\"" {
            findings.push(ONE_GIT.report(path, line, "git is looked for in PATH by the system"));
        }
        if code.text(index).starts_with("\"GIT_") && path != GIT_ENVIRONMENT {
            findings.push(ONE_GIT.report(path, line, "a variable of git is named here"));
        }
    }
    findings
}

fn assert_tidy(check: fn(&SourceFile) -> Vec<TidyFinding>) {
    let findings: Vec<_> = repository_files::read_sources().iter().flat_map(check).collect();
    assert_no_findings(&findings);
}

#[test]
fn lints_are_expected_and_never_allowed() {
    assert_tidy(check_allow);
}

#[test]
fn nothing_is_left_unfinished() {
    assert_tidy(check_unfinished);
}

#[test]
fn no_test_is_ignored() {
    assert_tidy(check_ignored);
}

#[test]
fn nothing_is_unwrapped_outside_of_tests() {
    assert_tidy(check_unwrap);
}

#[test]
fn git_is_started_in_one_place_with_one_environment() {
    assert_tidy(check_one_git);
}

fn core_source(text: &str) -> SourceFile {
    SourceFile::new("crates/core/src/turn.rs", text)
}

#[test]
fn an_allowed_lint_is_found() {
    let text = "#![allow(a)]\n#[allow(b)]\nfn f() {}\n#[cfg_attr(c, allow(d))]\nfn g() {}\n\
                #[expect(e, reason = \"allow(it)\")]\nfn allow() { allow(); }\n";
    assert_lines(&check_allow(&core_source(text)), &[1, 2, 4]);
}

#[test]
fn unfinished_code_is_found() {
    let text = "fn f() { todo!() }\nfn g() { call(unimplemented!(\"x\")) }\n\
                // todo!()\nfn todo() { todo() }\n#[test]\nfn h() { vec![todo!()]; }\n";
    assert_lines(&check_unfinished(&core_source(text)), &[1, 2, 6]);
}

#[test]
fn an_ignored_test_is_found() {
    let text = "#[test]\n#[ignore]\nfn f() {}\n#[test]\n#[ignore = \"slow\"]\nfn g() {}\n\
                #[cfg_attr(a, ignore)]\nfn h() {}\n#[serde(ignore)]\nstruct S;\n";
    assert_lines(&check_ignored(&core_source(text)), &[2, 5, 7]);
}

#[test]
fn an_unwrap_is_found() {
    let text = "fn f() { a.unwrap(); }\nfn g() { assert!(b.unwrap()); }\n\
                fn h() { c.map(Option::unwrap); d.unwrap_or(1); }\n\
                #[cfg(test)]\nmod tests { fn i() { e.unwrap(); } }\n";
    assert_lines(&check_unwrap(&core_source(text)), &[1, 2, 3]);
    assert_lines(&check_unwrap(&SourceFile::new("crates/core/tests/turn.rs", text)), &[]);
}

#[test]
fn a_second_way_to_start_git_is_found() {
    let text = "fn f() { Command::new(\"git\"); }\nfn g() { Command::new(a); }\n\
                fn h() { b.env(\"GIT_DIR\", c); }\n#[cfg(test)]\nmod tests { fn i() { Command::new(d); } }\n";
    let check = |path| check_one_git(&SourceFile::new(path, text));

    assert_lines(&check("crates/engine/src/project_lookup.rs"), &[1, 1, 2, 3]);
    assert_lines(&check("crates/process/src/git/run.rs"), &[1, 3]);
    assert_lines(&check("crates/process/src/git/environment.rs"), &[1, 1, 2]);
    assert_lines(&check("crates/engine/tests/it/project_lookup.rs"), &[]);
}
