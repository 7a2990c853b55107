//! The walks through the code in ARCHITECTURE.md: each step is a function that exists.

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile};

const WALK: TidyRule = TidyRule {
    name: "code-walk",
    remedy: "a step of a walk links a function to its file: [`Type::method`](crates/engine/src/turns/turn.rs)",
};
const PAGE: &str = "ARCHITECTURE.md";
/// A walk that is longer shows that the path through the code is not straight.
const MAX_STEPS: usize = 30;
/// One command and one request.
const MIN_WALKS: usize = 2;

/// A link of a walk: what it is called and where it leads.
struct WalkStep<'p> {
    line: usize,
    text: &'p str,
    file: &'p str,
}

/// A section whose heading says that it is a walk.
struct CodeWalk<'p> {
    line: usize,
    title: &'p str,
    steps: Vec<WalkStep<'p>>,
}

/// Returns the links of one line that lead to Rust files.
fn links_to_code(line: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let text = before.rsplit('[').next().unwrap_or_default();
        let target = after.split(')').next().unwrap_or_default();
        let file = target.split('#').next().unwrap_or_default();
        if file.ends_with(".rs") {
            found.push((text, file));
        }
        rest = after;
    }
    found
}

fn parse_walks(page: &str) -> Vec<CodeWalk<'_>> {
    let mut walks: Vec<CodeWalk<'_>> = Vec::new();
    let mut is_walk = false;
    for (index, text) in page.lines().enumerate() {
        let line = index + 1;
        if let Some(title) = text.strip_prefix('#') {
            let title = title.trim_start_matches('#').trim();
            is_walk = title.to_lowercase().contains("walk");
            if is_walk {
                walks.push(CodeWalk { line, title, steps: Vec::new() });
            }
        } else if is_walk && let Some(walk) = walks.last_mut() {
            let links = links_to_code(text).into_iter();
            walk.steps.extend(links.map(|(text, file)| WalkStep { line, text, file }));
        }
    }
    // A heading above the walks has no steps of its own.
    walks.retain(|walk| !walk.steps.is_empty());
    walks
}

/// Tells whether a file defines the function; of `Type::method`, the type must occur in it, too.
fn defines(source: &SourceFile, name: &str) -> bool {
    let (owner, function) = name.rsplit_once("::").unwrap_or(("", name));
    let code = &source.code;
    let all = 0..code.tokens.len();
    let has_function = source
        .shipped_tokens()
        .any(|index| code.text(index) == "fn" && code.text(index + 1) == function);
    let owner = owner.rsplit("::").next().unwrap_or_default();
    has_function && (owner.is_empty() || all.into_iter().any(|index| code.text(index) == owner))
}

fn check_walks(page: &str, sources: &[SourceFile]) -> Vec<TidyFinding> {
    let walks = parse_walks(page);
    let mut findings = Vec::new();
    for walk in &walks {
        if walk.steps.len() > MAX_STEPS {
            let what = format!(
                "\"{}\" has {} steps, {MAX_STEPS} are allowed",
                walk.title,
                walk.steps.len()
            );
            findings.push(WALK.report(PAGE, walk.line, what));
        }
        for WalkStep { line, text, file } in &walk.steps {
            let name = text.trim_matches('`').trim_end_matches("()");
            let source = sources.iter().find(|source| source.path == *file);
            if !source.is_some_and(|source| defines(source, name)) {
                let what = format!("{file} does not define `{name}`");
                findings.push(WALK.report(PAGE, *line, what));
            }
        }
    }
    if walks.len() < MIN_WALKS {
        let what = format!("{} of {MIN_WALKS} walks found", walks.len());
        findings.push(WALK.report(PAGE, 1, what));
    }
    findings
}

#[test]
fn walks_lead_through_functions_that_exist() {
    let page = repository_files::find_text(PAGE).expect("ARCHITECTURE.md is there");
    assert_no_findings(&check_walks(&page, &repository_files::read_sources()));
}

#[test]
fn wrong_steps_and_long_walks_are_reported() {
    let sources = [SourceFile::new(
        "crates/a/src/b.rs",
        "impl Run { fn start() {} }\nfn helper() {}\n#[cfg(test)]\nmod tests { fn only_here() {} }",
    )];
    let good = "1. [`Run::start`](crates/a/src/b.rs) calls [helper()](crates/a/src/b.rs#L2), see [docs](docs/a.md).\n";
    let walks = |body: &str| {
        format!(
            "## Walks\n\n### Walk: exec\n{body}\n### A PATCH, step by step: walk\n{good}\n## Other\n[x](crates/a/src/z.rs)\n"
        )
    };

    assert_lines(&check_walks(&walks(good), &sources), &[]);
    assert_lines(&check_walks(&walks(&good.repeat(15)), &sources), &[]);
    assert_lines(&check_walks(&walks(&good.repeat(16)), &sources), &[3]);
    let wrong = "[gone](crates/a/src/b.rs)\n[`helper`](crates/a/src/c.rs)\n[`Other::start`](crates/a/src/b.rs)\n[only_here](crates/a/src/b.rs)\n";
    assert_lines(&check_walks(&walks(wrong), &sources), &[4, 5, 6, 7]);
    assert_lines(&check_walks("# Nothing\n", &sources), &[1]);
}
