//! All commands, and the permission checks when a tool runs them inside a turn. The list is compared with the
//! manual pages, of which the program writes one for each command.

use std::collections::BTreeSet;

use serde_json::json;

use crate::fixture::{CliFixture, ProgramOutput};

/// Permission check of a command that a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// It changes nothing.
    Reads,
    /// It adds something, or changes what the gates do not protect.
    Open,
    /// A person is asked: exit code 4.
    Gate,
    /// Only a person may: exit code 1.
    Person,
}

use Check::{Gate, Open, Person, Reads};

/// The command, the check, and the arguments it is tried with.
const ROWS: &[(&str, Check, &[&str])] = &[
    ("approve", Person, &["per_1"]),
    ("auth list", Reads, &[]),
    ("auth remove", Person, &["anthropic"]),
    ("auth set", Person, &["anthropic"]),
    ("checkpoint", Gate, &["noon"]),
    ("checkpoint list", Reads, &[]),
    ("checkpoint remove", Gate, &["noon"]),
    ("completions", Reads, &[]),
    ("config check", Reads, &[]),
    ("config show", Reads, &[]),
    ("db backup", Reads, &[]),
    ("db compact", Open, &[]),
    ("db path", Reads, &[]),
    ("db size", Reads, &[]),
    ("diff", Reads, &[]),
    ("doctor", Open, &[]),
    ("exec", Open, &[]),
    ("export", Reads, &[]),
    ("forget", Gate, &["--yes", "a.txt"]),
    ("fork", Open, &[]),
    ("import", Person, &["--trust", "x.json"]),
    ("jump", Gate, &["noon"]),
    ("log", Reads, &[]),
    ("man", Reads, &[]),
    ("mcp forget", Person, &["demo"]),
    ("mcp list", Reads, &[]),
    ("models", Reads, &[]),
    ("permission explain", Reads, &[]),
    ("permission list", Reads, &[]),
    ("permission pending", Reads, &[]),
    ("permission reply", Person, &["per_1", "once"]),
    ("permission revoke", Person, &["bash", "*"]),
    ("permission set", Person, &["bash", "*", "allow"]),
    ("permission unset", Person, &["bash", "*"]),
    ("project list", Reads, &[]),
    ("project relink", Gate, &["PROJECT", "."]),
    ("project remove", Gate, &["--yes", "PROJECT"]),
    ("redo", Gate, &[]),
    ("run", Open, &[]),
    ("search", Reads, &[]),
    ("serve", Open, &[]),
    ("session abort", Open, &[]),
    ("session archive", Person, &["ses_aaa1"]),
    ("session delete", Gate, &["--yes", "ses_abc3"]),
    ("session list", Reads, &[]),
    ("session rename", Open, &[]),
    ("session show", Reads, &[]),
    ("session unarchive", Open, &[]),
    ("snapshot diff", Reads, &[]),
    ("snapshot du", Reads, &[]),
    ("snapshot gc", Open, &[]),
    ("snapshot git-dir", Reads, &[]),
    ("snapshot list", Reads, &[]),
    ("snapshot redo", Gate, &[]),
    ("snapshot restore", Gate, &["TREE"]),
    ("snapshot show", Reads, &[]),
    ("snapshot track", Open, &[]),
    ("snapshot undo", Gate, &[]),
    ("snapshot verify", Reads, &[]),
    ("snapshot watch", Open, &[]),
    ("stats", Reads, &[]),
    ("status", Reads, &[]),
    ("todo done", Open, &[]),
    ("todo list", Reads, &[]),
    ("todo set", Open, &[]),
    ("tour", Open, &[]),
    ("trust", Person, &["--yes"]),
    ("undo", Gate, &[]),
    ("worktree create", Open, &[]),
    ("worktree list", Reads, &[]),
    ("worktree remove", Gate, &[]),
    ("worktree reset", Gate, &[]),
];

/// Covered by separate tests, with the files and turns they need.
const ELSEWHERE: [&str; 8] = [
    "forget",
    "jump",
    "undo",
    "redo",
    "snapshot redo",
    "snapshot undo",
    "worktree remove",
    "worktree reset",
];

fn run_in_turn(case: &CliFixture, args: &[&str]) -> ProgramOutput {
    case.run_command(case.command("p", args).env("TURNSTONE_SESSION", "ses_aaa1"))
}

#[test]
fn every_command_is_listed_with_its_check() {
    let case = CliFixture::empty();
    assert_eq!(case.run(&["man", "pages"]).code, 0);
    let mut pages = BTreeSet::new();
    for entry in fs_err::read_dir(case.path("p/pages")).expect("listed") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let name = name.trim_end_matches(".1").trim_start_matches("turnstone").to_owned();
        pages.insert(name.trim_start_matches('-').to_owned());
    }
    let is_group = |name: &String| {
        // `checkpoint` does something by itself; `todo` shows what `todo list` shows.
        let has_pages = pages.iter().any(|other| other.starts_with(&format!("{name}-")));
        name.is_empty() || (has_pages && name != "checkpoint")
    };
    let commands: BTreeSet<String> = pages.iter().filter(|it| !is_group(it)).cloned().collect();
    let listed: BTreeSet<String> = ROWS.iter().map(|(name, ..)| name.replace(' ', "-")).collect();
    assert_eq!(commands, listed);
}

#[test]
fn a_tool_meets_the_check_that_is_listed_for_a_command() {
    let case = CliFixture::with_sessions();
    fs_err::write(case.path("p/a.txt"), "one\n").expect("written");
    let tracked = case.run_json(&["snapshot", "track"]);
    fs_err::write(case.path("p/a.txt"), "two\n").expect("written");
    fs_err::write(case.path("p/x.json"), json!({}).to_string()).expect("written");
    assert_eq!(case.run(&["checkpoint", "noon"]).code, 0);
    let projects = case.run_json(&["project", "list"]);
    let project = projects[0]["project"]["id"].as_str().expect("an id");
    let tree = tracked["tree"].as_str().expect("a tree");
    for (name, check, args) in ROWS {
        let code = match check {
            Reads | Open => continue,
            _ if ELSEWHERE.contains(name) => continue,
            Gate => 4,
            Person => 1,
        };
        let args = args.iter().map(|arg| match *arg {
            "PROJECT" => project,
            "TREE" => tree,
            other => other,
        });
        let command_line: Vec<&str> = name.split(' ').chain(args).collect();
        let ran = run_in_turn(&case, &command_line);
        assert_eq!(ran.code, code, "{command_line:?}: {ran:?}");
        if *check == Person {
            assert!(ran.err.contains("only a person"), "{command_line:?}: {ran:?}");
        }
    }
    assert_eq!(fs_err::read_to_string(case.path("p/a.txt")).expect("read"), "two\n");
}
