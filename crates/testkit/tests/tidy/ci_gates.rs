//! The gates themselves: lints that are on, sources that are known, the one test command.

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile, TextFile};

const LINTS: TidyRule = TidyRule {
    name: "workspace-lints",
    remedy: "every Cargo.toml has `[lints]` with `workspace = true`; a dev-only crate may have \
             its own table with `unsafe_code = \"deny\"` (R35)",
};
const UNSAFE: TidyRule = TidyRule {
    name: "forbid-unsafe",
    remedy: "the root Cargo.toml has `unsafe_code = \"forbid\"` in [workspace.lints.rust]",
};
const SOURCE: TidyRule = TidyRule {
    name: "package-source",
    remedy: "use a published version from crates.io, or the path of one of our crates",
};
const COMMAND: TidyRule = TidyRule {
    name: "one-test-command",
    remedy: "README.md says under \"Run all tests\" what .ci/run runs: `scripts/test`",
};
const GATE: TidyRule =
    TidyRule { name: "all-gates", remedy: "scripts/test runs every gate; put the command back" };

/// The only shipped crate with unsafe code, and where it stands.
const UNSAFE_CRATE: &str = "crates/trace/";
const UNSAFE_FOLDER: &str = "crates/trace/src/kernel/";
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const HEADING: &str = "Run all tests";

/// What `scripts/test` may not lose.
const GATES: [&str; 9] = [
    "set -euo pipefail",
    "cargo fmt --all --check",
    "cargo clippy --locked --workspace --all-targets -- -D warnings",
    "cargo nextest run --locked --workspace --profile ci",
    "cargo test --locked --workspace --doc",
    "env RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --no-deps --document-private-items",
    "cargo deny --locked check --hide-inclusion-graph licenses bans sources",
    "scripts/advisories check",
    "diff -ru \"$before/docs\" docs",
];

/// Returns the lines of a TOML table, up to the next table.
fn table_lines<'a>(toml: &'a str, header: &str) -> Vec<&'a str> {
    let lines = toml.lines().map(str::trim).skip_while(|line| *line != header).skip(1);
    lines.take_while(|line| !line.starts_with('[')).collect()
}

fn check_lints(manifest: &TextFile) -> Vec<TidyFinding> {
    let dev_only =
        ["crates/testkit/", "crates/bench/"].iter().any(|it| manifest.path.starts_with(it));
    let inherited = table_lines(&manifest.text, "[lints]").contains(&"workspace = true");
    let own = table_lines(&manifest.text, "[lints.rust]").contains(&"unsafe_code = \"deny\"");
    if inherited || (dev_only || manifest.path.starts_with(UNSAFE_CRATE)) && own {
        return Vec::new();
    }
    vec![LINTS.report(&manifest.path, 1, "the crate does not take the lints of the workspace")]
}

/// The shipped crate with a table of lints of its own: the workspace's, but that it denies unsafe code.
///
/// Only `deny` can be lifted line by line, with a reason; `forbid` cannot.
fn check_unsafe_crate(root: &str, manifest: &TextFile) -> Vec<TidyFinding> {
    let tables = [
        ("[workspace.lints.rust]", "[lints.rust]"),
        ("[workspace.lints.clippy]", "[lints.clippy]"),
    ];
    let wanted = tables.iter().flat_map(|(ours, theirs)| {
        let own = table_lines(&manifest.text, theirs);
        let of_workspace = table_lines(root, ours).into_iter().filter(|line| line.contains('='));
        let missing = of_workspace.map(|line| line.replace("\"forbid\"", "\"deny\""));
        missing.filter(move |line| !own.contains(&line.as_str())).collect::<Vec<_>>()
    });
    wanted.map(|line| LINTS.report(&manifest.path, 1, format!("`{line}` is missing"))).collect()
}

/// Finds unsafe code of that crate outside of the one folder that is reviewed for it.
fn check_unsafe_place(source: &SourceFile) -> Vec<TidyFinding> {
    if !source.path.starts_with(UNSAFE_CRATE) || source.path.starts_with(UNSAFE_FOLDER) {
        return Vec::new();
    }
    let found = source.shipped_tokens().filter(|index| source.code.text(*index) == "unsafe");
    found
        .map(|index| {
            UNSAFE.report(&source.path, source.code.tokens[index].line, "unsafe code stands here")
        })
        .collect()
}

fn check_unsafe(root: &str) -> Vec<TidyFinding> {
    if table_lines(root, "[workspace.lints.rust]").contains(&"unsafe_code = \"forbid\"") {
        return Vec::new();
    }
    vec![UNSAFE.report("Cargo.toml", 1, "unsafe code is not forbidden")]
}

fn check_sources(lock: &str) -> Vec<TidyFinding> {
    let lines = lock.lines().enumerate();
    let sources = lines.filter_map(|(index, line)| Some((index, line.strip_prefix("source = ")?)));
    sources
        .filter(|(_, source)| source.trim_matches('"') != CRATES_IO)
        .map(|(index, source)| {
            SOURCE.report("Cargo.lock", index + 1, format!("{source} is unknown"))
        })
        .collect()
}

/// Returns the commands of the first fenced block under the heading.
fn documented_commands(readme: &str) -> Vec<&str> {
    let is_heading =
        |line: &&str| line.starts_with('#') && line.trim_start_matches('#').trim() == HEADING;
    let section = readme.lines().skip_while(|line| !is_heading(line)).skip(1);
    let section = section.take_while(|line| !line.starts_with("# ") && !line.starts_with("## "));
    let block = section.skip_while(|line| !line.starts_with("```")).skip(1);
    block
        .take_while(|line| !line.starts_with("```"))
        .map(|line| line.trim().trim_start_matches("$ "))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// Removes what only says which shell starts the command.
fn strip_shell(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix("exec ").unwrap_or(line);
    line.strip_prefix("bash ").unwrap_or(line)
}

fn check_command(readme: &str, ci: &str) -> Vec<TidyFinding> {
    let commands = documented_commands(readme);
    if commands.iter().map(|line| strip_shell(line)).ne(["scripts/test"]) {
        let what = format!("under \"{HEADING}\" stands {commands:?}, not `scripts/test` alone");
        return vec![COMMAND.report("README.md", 1, what)];
    }
    if ci.lines().filter(|line| strip_shell(line) == "scripts/test").count() != 1 {
        return vec![COMMAND.report(".ci/run", 1, "it does not run the documented command")];
    }
    Vec::new()
}

fn check_gates(script: &str) -> Vec<TidyFinding> {
    // A gate is a line of its own, with nothing before it but the name of its step.
    let is_run = |line: &str, gate: &str| {
        let before = line.strip_suffix(gate);
        before.is_some_and(|before| before.is_empty() || before.starts_with("step \""))
    };
    let missing = GATES.iter().filter(|gate| !script.lines().any(|line| is_run(line, gate)));
    missing.map(|gate| GATE.report("scripts/test", 1, format!("`{gate}` does not run"))).collect()
}

/// Returns the content of a file the rule cannot do without.
#[track_caller]
fn read_required(rule: &TidyRule, path: &str) -> String {
    repository_files::find_text(path)
        .unwrap_or_else(|| panic!("{}", rule.report(path, 1, "the file cannot be read")))
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let files = repository_files::read_files();
    let manifests = files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"));
    let findings: Vec<_> = manifests.flat_map(check_lints).collect();
    assert_no_findings(&findings);
}

#[test]
fn unsafe_code_is_forbidden() {
    assert_no_findings(&check_unsafe(&read_required(&UNSAFE, "Cargo.toml")));
}

#[test]
fn the_crate_with_unsafe_code_takes_all_other_lints() {
    let root = read_required(&LINTS, "Cargo.toml");
    let path = format!("{UNSAFE_CRATE}Cargo.toml");
    let manifest = TextFile { text: read_required(&LINTS, &path), path };
    assert_no_findings(&check_unsafe_crate(&root, &manifest));
}

#[test]
fn unsafe_code_stands_in_one_folder() {
    let sources = repository_files::read_sources();
    assert_no_findings(&sources.iter().flat_map(check_unsafe_place).collect::<Vec<_>>());
}

#[test]
fn packages_come_from_crates_io() {
    assert_no_findings(&check_sources(&read_required(&SOURCE, "Cargo.lock")));
}

#[test]
fn readme_and_ci_run_the_same_command() {
    let readme = read_required(&COMMAND, "README.md");
    let ci = read_required(&COMMAND, ".ci/run");
    assert_no_findings(&check_command(&readme, &ci));
}

#[test]
fn the_test_command_runs_every_gate() {
    assert_no_findings(&check_gates(&read_required(&GATE, "scripts/test")));
}

#[test]
fn a_crate_without_lints_is_found() {
    let check = |path: &str, text: &str| {
        check_lints(&TextFile { path: path.to_owned(), text: text.to_owned() })
    };
    let own = "[lints.rust]\nunsafe_code = \"deny\"\n";

    assert_lines(&check("crates/core/Cargo.toml", "[lints]\nworkspace = true\n"), &[]);
    assert_lines(&check("crates/core/Cargo.toml", "[lints]\n[a]\nworkspace = true\n"), &[1]);
    assert_lines(&check("crates/core/Cargo.toml", own), &[1]);
    assert_lines(&check("crates/bench/Cargo.toml", own), &[]);
    assert_lines(&check("crates/bench/Cargo.toml", ""), &[1]);
    assert_lines(&check("crates/trace/Cargo.toml", own), &[]);
    assert_lines(&check("crates/trace/Cargo.toml", "[lints.rust]\nunsafe_code = \"warn\"\n"), &[1]);
}

#[test]
fn a_lint_missing_in_the_crate_with_unsafe_code_is_found() {
    let root = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n[workspace.lints.clippy]\nexit = \"warn\"\n";
    let check = |text: &str| {
        check_unsafe_crate(root, &TextFile { path: "Cargo.toml".to_owned(), text: text.to_owned() })
    };
    let rust = "[lints.rust]\nunsafe_code = \"deny\"\n";
    assert_lines(&check(rust), &[1]);
    assert_lines(&check(&format!("{rust}[lints.clippy]\nexit = \"warn\"\n")), &[]);
}

#[test]
fn allowed_unsafe_code_is_found() {
    let manifest = |level| format!("[workspace.lints.rust]\nunsafe_code = \"{level}\"\n");

    assert_lines(&check_unsafe(&manifest("forbid")), &[]);
    assert_lines(&check_unsafe(&manifest("warn")), &[1]);
}

#[test]
fn an_unknown_source_is_found() {
    let lock = format!("source = \"{CRATES_IO}\"\nsource = \"git+https://example.com/a\"\n");
    assert_lines(&check_sources(&lock), &[2]);
}

#[test]
fn a_command_that_differs_from_the_documented_one_is_found() {
    let readme = "# A\n## Run all tests\nText.\n```sh\nscripts/test\n```\n## B\n```\nother\n```\n";
    let ci = "#!/usr/bin/env bash\nexport A=1\nexec bash scripts/test\n";

    assert_lines(&check_command(readme, ci), &[]);
    assert_lines(&check_command("# A\n", ci), &[1]);
    assert_lines(&check_command(&readme.replace("scripts/test", "cargo test"), ci), &[1]);
    assert_lines(&check_command(readme, "scripts/test || true\n"), &[1]);
    assert_lines(&check_command(readme, "# scripts/test\n"), &[1]);
}

#[test]
fn missing_gate_is_reported() {
    let all = GATES.join("\n");

    assert_lines(&check_gates(&all), &[]);
    assert_lines(&check_gates(&all.replace("cargo fmt", "# cargo fmt")), &[1]);
    assert_lines(&check_gates(&all.replace("--profile ci", "--profile ci || true")), &[1]);
}
