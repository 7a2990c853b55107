//! The program as a whole: help, exit codes, colours, completions, man pages.

use std::process::{Command, Stdio};
use std::sync::LazyLock;

use insta::assert_snapshot;
use serde_json::Value;

use crate::fixture::{CliFixture, ProgramOutput, read_file};

/// Every command that can be run, as the program's own help lists it: no new one is overlooked.
pub(crate) fn runnable_commands() -> &'static [Vec<String>] {
    static FOUND: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
        let (case, mut found) = (CliFixture::empty(), Vec::new());
        collect_runnable(&case, &[], &mut found);
        assert!(found.len() > 55, "{found:?}");
        found
    });
    &FOUND
}

fn collect_runnable(case: &CliFixture, path: &[String], found: &mut Vec<Vec<String>>) {
    let args: Vec<&str> = path.iter().map(String::as_str).chain(["-h"]).collect();
    let ran = case.run(&args);
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    let usage = ran.out.lines().find(|line| line.starts_with("Usage:")).expect("a usage line");
    if !usage.contains("<COMMAND>") {
        found.push(path.to_vec());
    }
    let mut is_command_list = false;
    for line in ran.out.lines() {
        if !line.starts_with(' ') {
            // The top-level page lists the commands under several headings.
            is_command_list = match path.is_empty() {
                true => line.ends_with(':') && line != "Options:",
                false => line == "Commands:",
            };
        }
        if !is_command_list {
            continue;
        }
        // A line that goes on with a description is indented further.
        let Some(name) = line.strip_prefix("  ").filter(|name| !name.starts_with(' ')) else {
            continue;
        };
        let name = name.split_whitespace().next().expect("a name");
        if name != "help" {
            let inner: Vec<String> = path.iter().cloned().chain([name.to_owned()]).collect();
            collect_runnable(case, &inner, found);
        }
    }
}

/// The error in the last line on stderr.
fn read_json_error(ran: &ProgramOutput) -> Value {
    let line = ran.err.lines().last().expect("a line");
    let error: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{ran:?}"));
    error["error"].clone()
}

#[test]
fn errors_are_json_if_asked_for() {
    let case = CliFixture::empty();
    let ran = case.run(&["undo", "--json"]);
    let error = read_json_error(&ran);
    assert_eq!((ran.code, ran.out.as_str(), &error["kind"]), (1, "", &"refused".into()), "{ran:?}");
    assert_eq!(error["message"], "no session in ~/p");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.starts_with("start one with")));

    let ran = case.run(&["--json", "undo", "--no-such-option"]);
    let error = read_json_error(&ran);
    assert_eq!((ran.code, &error["kind"]), (2, &"usage".into()), "{ran:?}");
    assert_eq!(error["message"], "unexpected argument '--no-such-option' found");
    let ran = case.run(&["session", "show", "\u{1b}[2J", "--json"]);
    assert_eq!(read_json_error(&ran)["kind"], "usage");
    assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
    // What follows `--` belongs to the command.
    let ran = case.run(&["exec", "--no-such-option", "--", "true", "--json"]);
    assert!(ran.err.starts_with("error: unexpected argument"), "{ran:?}");
}

#[test]
fn help_lists_every_command() {
    let case = CliFixture::empty();
    let ran = case.run(&["-h"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(ran.out, @r"
    Turnstone keeps a durable record of what coding agents do in your projects: every session, prompt,
    command and changed file. With it you can undo exactly what one agent did, today or next week, while
    your own edits stay as they are.

    Usage: turnstone [OPTIONS] <COMMAND>

    Run agents and undo their changes:
      run          Let the agent work on a prompt, and follow it here
      exec         Run any command as a turn that can be undone
      undo         Undo exactly what a turn did, and nothing else
      redo         Redo what was undone
      jump         Go to an earlier or later point of a session
      checkpoint   Create a checkpoint to jump back to
      fork         Copy a session, whole or up to a message or turn

    See what happened:
      status       Show project, session, running commands and whether undo works here
      log          Show the history of a project or session: turns, changed files, operations and forks
      diff         Show the changes of a session, a turn, or between two points
      session      List, show, rename, archive and delete sessions
      search       Search titles, messages, reasoning, tool calls and changed paths
      stats        Show totals of sessions, tokens, costs, models and tools
      todo         Show or change the to-do list of a session

    Manage files, projects and permissions:
      snapshot     Capture a directory, compare captures, restore files
      worktree     Create, reset and remove git worktrees of this project
      project      List, relink and remove projects
      permission   List, explain, set and revoke permissions of agents
      approve      Allow what an agent waits for
      forget       Permanently erase recorded file contents, such as a leaked secret

    Set up agents and models:
      models       List the models that agents can use
      auth         Store, list and remove keys of providers
      config       Show and check the configuration of agents and models
      trust        Trust the configuration files of a project
      mcp          List MCP servers and their tools, and forget which were allowed

    Work with OpenCode:
      serve        Serve the HTTP API for OpenCode clients and native clients
      import       Import sessions from OpenCode
      export       Export a session in OpenCode's format

    Check and maintain the data:
      doctor       Check the data directory and the database
      db           Maintain the database

    Help and setup:
      tour         Watch undo at work in a temporary project, in less than a minute
      completions  Print shell completions
      man          Print the man page, or write one per command into a directory
      help         Print help for a command

    Options:
          --data <DIR>    Data directory [env: TURNSTONE_DATA] [default: turnstone in the XDG data
                          directory]
          --json          Print data as JSON
          --color <WHEN>  When to use colours: auto, always or never (NO_COLOR is respected)
          --no-pager      Do not page long output (pager: TURNSTONE_PAGER, PAGER or less)
      -v, --verbose...    Log more to stderr; repeat for more detail
      -h, --help          Print help (see more with '--help')
      -V, --version       Print version
    ");
    assert!(
        case.run(&["--help"])
            .out
            .contains("70  internal error: a bug in Turnstone, please report it")
    );
}

#[test]
fn every_command_has_summary_and_example() {
    let case = CliFixture::empty();
    for leaf in runnable_commands() {
        let args: Vec<&str> = leaf.iter().map(String::as_str).chain(["--help"]).collect();
        let ran = case.run(&args);
        let first = ran.out.lines().next().unwrap_or_default();
        assert!(
            first.len() > 10 && !first.ends_with('.') && !first.starts_with("Usage"),
            "{leaf:?}: {first}"
        );
        assert!(ran.out.contains("Example"), "{leaf:?} has no example");
        assert!(ran.out.contains(&format!("turnstone {}", leaf.join(" "))), "{leaf:?}");
        assert!(!ran.out.contains("--width"), "hidden flags stay hidden");
    }
}

#[test]
fn usage_error_exits_with_2() {
    let case = CliFixture::empty();
    for args in [&[][..], &["session"], &["sesion", "list"], &["export"], &["db"]] {
        let ran = case.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.contains("Usage: turnstone"), "{args:?}: {}", ran.err);
    }
    assert_eq!(case.run(&["session", "list", "--limit", "0"]).code, 2);
    assert!(!case.data_dir().exists(), "nothing was made for a command that did not run");
}

#[test]
fn broken_pipe_exits_silently_with_3() {
    let case = CliFixture::with_sessions();
    for args in [
        &["session", "list", "--all"][..],
        &["session", "show", "aaa", "--json"],
        &["--help"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        #[expect(clippy::disallowed_methods, reason = "assert_cmd has no way to hand over a pipe")]
        let output = Command::new(env!("CARGO_BIN_EXE_turnstone"))
            .env("TURNSTONE_DATA", case.data_dir())
            .args(args)
            .current_dir(case.path("p"))
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("runs");
        assert_eq!(output.status.code(), Some(3), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn unusable_data_directory_is_refused_with_a_hint() {
    let case = CliFixture::empty();
    fs_err::write(case.path("file"), "not a directory").expect("written");
    let ran = case.run(&["session", "list", "--data", "../file"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("error: the data directory ~/p/../file"), "{}", ran.err);
    assert!(
        ran.err.ends_with("hint: choose another directory with `--data DIR` or TURNSTONE_DATA\n"),
        "{}",
        ran.err
    );
    fs_err::create_dir_all(case.data_dir()).expect("made");
    fs_err::write(case.data_dir().join("turnstone.db"), "x".repeat(5000)).expect("written");
    let ran = case.run(&["session", "list"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: ~/data/turnstone.db is damaged: "), "{}", ran.err);
    assert!(ran.err.contains("\nhint: run `turnstone doctor --salvage"), "{}", ran.err);
}

#[test]
fn data_flag_overrides_environment() {
    let case = CliFixture::with_sessions();
    let other = case.path("other");
    let ran = case.run(&["db", "path", "--data", &other.to_string_lossy()]);
    assert_eq!(ran.out, "~/other/turnstone.db\n");
    assert_eq!(case.run(&["db", "path"]).out, "~/data/turnstone.db\n");
    assert_eq!(
        case.run(&["--json", "db", "path"]).out,
        "{\n  \"path\": \"~/data/turnstone.db\"\n}\n"
    );
    let mut usual = case.command("p", &["db", "path"]);
    usual.env_remove("TURNSTONE_DATA").env("HOME", case.path("home"));
    assert_eq!(case.run_command(&mut usual).out, "~/home/.local/share/turnstone/turnstone.db\n");
}

#[test]
fn colour_follows_flag_environment_and_terminal() {
    let case = CliFixture::with_sessions();
    let list = ["session", "list", "--all"];
    assert!(!case.run(&list).out.contains('\u{1b}'), "a pipe gets none");
    let always = case.run(&[&list[..], &["--color", "always"]].concat());
    assert!(always.out.contains("\u{1b}[1m"), "{:?}", always.out);
    let mut asked = case.command("p", &list);
    asked.env("CLICOLOR_FORCE", "1");
    assert!(case.run_command(&mut asked).out.contains('\u{1b}'));
    asked.env("NO_COLOR", "1");
    assert!(!case.run_command(&mut asked).out.contains('\u{1b}'), "NO_COLOR wins");
    let never = case.run(&["session", "show", "zz", "--color", "never"]);
    assert!(!never.err.contains('\u{1b}'));
}

#[test]
fn completions_cover_every_shell_and_command() {
    let case = CliFixture::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = case.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        for word in runnable_commands().iter().flatten() {
            assert!(ran.out.contains(word), "{shell} does not know {word}");
        }
    }
    assert_eq!(case.run(&["completions", "tcsh"]).code, 2);
}

#[test]
fn man_pages_exist_for_every_command() {
    let case = CliFixture::empty();
    let main = case.run(&["man"]);
    assert_eq!(main.code, 0);
    for leaf in runnable_commands() {
        assert!(main.out.contains(&leaf[0]), "{leaf:?}");
    }
    let ran = case.run(&["man", "pages"]);
    assert!(ran.err.starts_with("wrote ") && ran.err.ends_with("pages to pages\n"), "{}", ran.err);
    for leaf in runnable_commands() {
        let page = read_file(&case.path("p/pages").join(format!("turnstone-{}.1", leaf.join("-"))));
        assert!(page.contains(".SH SYNOPSIS"), "{leaf:?}");
    }
}

#[test]
fn version_is_printed() {
    let ran = CliFixture::empty().run(&["--version"]);
    assert_eq!(ran.out, format!("turnstone {}\n", env!("CARGO_PKG_VERSION")));
}
