//! No data can command a terminal, whatever the command and the colours; pipes get exact bytes.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use turnstone_testkit::pseudo_terminal::{self, CapturedOutput, StreamKind};

use crate::exec::TEST_PATH;
use crate::fixture::CliFixture;
use crate::program_basics::runnable_commands;
use crate::serve_shell::{await_ready, read_response};

/// A file name that sets a title, changes colours, clears the screen and turns the direction.
const HOSTILE_NAME: &str = "a\u{1b}]0;owned\u{7}\u{1b}[35;7mb\r\u{9b}2J\u{9d}0;x\u{9c}\u{7f}\u{202e}\u{2066}\u{61c}\u{200f}z";
/// What is visible of it.
const ESCAPED_NAME: &str = "a␛]0;owned␇␛[35;7mb";
/// A name without what git refuses in a branch.
const HOSTILE_BRANCH: &str = "b\u{9b}31m\u{202e}\u{2067}z";
/// A command that writes all of it, and bytes that are no UTF-8, into a file and to its output.
const HOSTILE_SCRIPT: &str = r#"printf '%s\n\233\033[2J\377\t\r\n' "$1" | tee "$1" other.txt
printf '%s\n\302\233\033[2J\t\r\n' "$1" >text.txt"#;

/// Commands that print nothing of a project, or do not end by themselves.
const UNSWEPT_COMMANDS: [&[&str]; 3] = [&["exec"], &["snapshot", "watch"], &["serve"]];

#[expect(clippy::disallowed_methods, reason = "the streams of the program are terminals here")]
fn other_program(case: &CliFixture, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command
        .env_clear()
        .envs([("PATH", TEST_PATH), ("TZ", "UTC"), ("USER", "ada"), ("TERM", "xterm-256color")])
        .env("TURNSTONE_PAGER", "cat")
        .env("HOME", case.path("home"))
        .env("TURNSTONE_DATA", case.data_dir())
        .current_dir(case.path("p"))
        .args(args);
    command
}

fn turnstone_command(case: &CliFixture, args: &[&str]) -> Command {
    other_program(case, env!("CARGO_BIN_EXE_turnstone"), args)
}

fn run_piped(case: &CliFixture, args: &[&str]) -> CapturedOutput {
    pseudo_terminal::run_with_streams(
        &mut turnstone_command(case, args),
        StreamKind::Pipe,
        StreamKind::Pipe,
    )
    .expect("it runs")
}

/// The tree a capture of the project has now.
fn capture_tree(case: &CliFixture) -> String {
    let tracked = run_piped(case, &["snapshot", "track"]);
    String::from_utf8(tracked.stdout).expect("a tree").trim().to_owned()
}

/// A repository whose branch, file names, contents, titles and outputs are all hostile; and the
/// tree before there was any file.
fn hostile_fixture() -> (CliFixture, String) {
    let case = CliFixture::empty();
    for args in [
        &["init", "-q", "-b", HOSTILE_BRANCH][..],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            HOSTILE_NAME,
        ],
    ] {
        assert!(other_program(&case, "git", args).status().expect("git runs").success());
    }
    let empty = capture_tree(&case);
    let exec =
        ["exec", "--title", HOSTILE_NAME, "--", "sh", "-c", HOSTILE_SCRIPT, "sh", HOSTILE_NAME];
    assert_eq!(run_piped(&case, &exec).status.code(), Some(0));
    (case, empty)
}

/// Every command with something hostile to show, in an order in which each has something to do.
fn sweep_commands(session: &str, empty: &str, tree: &str) -> Vec<Vec<String>> {
    let lines = [
        "status|-v",
        "log",
        "diff",
        "diff|--stat",
        "session|list",
        "session|show|SESSION",
        "search|owned",
        "search|NAME",
        "stats",
        "project|list",
        "todo|set|NAME",
        "todo|list",
        "todo|done|1",
        "checkpoint|NAME",
        "checkpoint|list",
        "jump|NAME",
        "checkpoint|remove|NAME",
        "permission|list",
        "permission|explain|bash|NAME",
        "permission|set|bash|NAME|deny",
        "permission|explain|bash|NAME",
        "permission|unset|bash|NAME",
        "permission|revoke|bash|NAME",
        "permission|pending",
        "permission|reply|NAME|once",
        "approve",
        "approve|NAME",
        "snapshot|track",
        "snapshot|list",
        "snapshot|show|TREE",
        "snapshot|diff|EMPTY",
        "snapshot|diff|EMPTY|--stat",
        "snapshot|restore|TREE|--dry-run",
        "snapshot|restore|TREE|NAME",
        "snapshot|undo",
        "snapshot|redo",
        "snapshot|du",
        "snapshot|gc",
        "snapshot|verify",
        "snapshot|git-dir",
        "worktree|create|NAME",
        "worktree|create|sound",
        "worktree|list",
        "worktree|reset|sound|--dry-run",
        "worktree|remove|sound|--dry-run",
        "run|--model|scripted/script.json|--auto|--thinking|NAME",
        "run|--model|scripted/script.json|--format|json|NAME",
        "run|--model|NAME|NAME",
        "undo|--dry-run",
        "undo",
        "redo",
        "fork|SESSION",
        "export|SESSION",
        "export|SESSION|--output|NAME.json",
        "import|NAME.json",
        "import|NAME",
        "forget|NAME|--dry-run",
        "session|rename|SESSION|NAME",
        "session|archive|SESSION",
        "session|unarchive|SESSION",
        "session|abort|SESSION",
        "session|delete|SESSION|--dry-run",
        "session|delete|SESSION",
        "project|relink|NAME|NAME",
        "project|remove|NAME",
        "doctor",
        "models",
        "models|NAME",
        "models|--all",
        "auth|set|NAME",
        "auth|list",
        "auth|remove|NAME",
        "mcp|list",
        "mcp|forget|NAME",
        "config|show",
        "config|check",
        "trust",
        "trust|--yes",
        "trust|--list",
        "trust|--remove",
        "db|path",
        "db|size",
        "db|backup|NAME.backup",
        "db|compact",
        "tour",
        "completions|bash",
        "man",
        "man|NAME.pages",
        "session|show|NAME",
        "session|list|--limit|NAME",
        "NAME",
        "--NAME",
        "--data|NAME|doctor",
        "exec|--|NAME",
        "undo|NAME",
    ];
    let filled = |word: &str| {
        word.replace("SESSION", session)
            .replace("EMPTY", empty)
            .replace("TREE", tree)
            .replace("NAME", HOSTILE_NAME)
    };
    lines.iter().map(|line| line.split('|').map(filled).collect()).collect()
}

/// What a terminal must not get, beyond the styles of this program.
pub(crate) fn find_forbidden(bytes: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Some("bytes that are no UTF-8".to_owned());
    };
    let mut plain = text.to_owned();
    for style in ["0", "1", "2", "4", "31", "32", "33", "36"] {
        plain = plain.replace(&format!("\u{1b}[{style}m"), "");
    }
    // A progress bar fills its line with spaces, returns to its beginning and clears it. The hostile
    // carriage return stands behind a letter.
    plain = plain.replace(" \r", " ").replace("\r\u{1b}[2K", "").replace("\u{1b}[2K", "");
    let is_unsafe = |c: &char| {
        matches!(c, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{61c}'
            | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
    };
    plain.chars().find(is_unsafe).map(|c| format!("{c:?} in {plain:?}"))
}

/// Runs every command in one mode and looks at the streams that are terminals.
fn check_all_commands(
    mode: &[&str],
    environment: &[(&str, &str)],
    targets: (StreamKind, StreamKind),
) {
    let (case, empty) = hostile_fixture();
    let listed: Value =
        serde_json::from_slice(&run_piped(&case, &["session", "list", "--json"]).stdout)
            .expect("JSON");
    let session = listed["sessions"][0]["id"].as_str().expect("a session").to_owned();
    let tree = capture_tree(&case);
    let config = json!({
        "agent": { HOSTILE_NAME: { "prompt": HOSTILE_NAME, "permission": { HOSTILE_NAME: "allow" } } },
        "provider": { HOSTILE_NAME: { "name": HOSTILE_NAME, "api": "http://127.0.0.1/v1",
            "models": { HOSTILE_NAME: { "name": HOSTILE_NAME } } } },
        "shell": HOSTILE_NAME });
    fs_err::write(case.path("p/opencode.json"), config.to_string()).expect("written");
    let call =
        json!({ "tool": "bash", "input": { "command": "sh x", "description": HOSTILE_NAME } });
    let named = json!({ "tool": HOSTILE_NAME, "input": { HOSTILE_NAME: HOSTILE_NAME } });
    let answer = json!({ "text": HOSTILE_NAME });
    let script = json!({ "turns": [[answer, call, named], [answer]], "without_tools": [answer] });
    fs_err::write(case.path("p/script.json"), script.to_string()).expect("written");
    let (mut shown, mut seen) = (String::new(), Vec::new());
    for words in sweep_commands(&session, &empty, &tree) {
        let args: Vec<&str> =
            mode.iter().copied().chain(words.iter().map(String::as_str)).collect();
        let mut command = turnstone_command(&case, &args);
        command.envs(environment.iter().copied());
        let written =
            pseudo_terminal::run_with_streams(&mut command, targets.0, targets.1).expect("it runs");
        for (target, bytes) in [(targets.0, &written.stdout), (targets.1, &written.stderr)] {
            if target == StreamKind::Terminal {
                assert_eq!(find_forbidden(bytes), None, "{words:?} {mode:?} {environment:?}");
                shown.push_str(std::str::from_utf8(bytes).expect("UTF-8"));
            }
        }
        assert_ne!(written.status.code(), Some(70), "{words:?}: {written:?}");
        seen.push(words);
    }
    let is_elsewhere = |leaf: &[String]| UNSWEPT_COMMANDS.iter().any(|known| leaf == *known);
    for leaf in runnable_commands().iter().filter(|leaf| !is_elsewhere(leaf)) {
        let is_covered = seen.iter().any(|words| words.starts_with(leaf));
        assert!(is_covered, "{leaf:?} is not in the sweep");
    }
    assert!(shown.matches(ESCAPED_NAME).count() > 5 || mode.contains(&"--json"), "{shown}");
}

#[test]
fn terminals_get_no_control_characters_with_automatic_colour() {
    check_all_commands(&[], &[], (StreamKind::Terminal, StreamKind::Terminal));
}

#[test]
fn terminals_get_no_control_characters_without_colour() {
    check_all_commands(&[], &[("NO_COLOR", "1")], (StreamKind::Terminal, StreamKind::Terminal));
}

#[test]
fn terminals_get_no_control_characters_with_forced_colour() {
    check_all_commands(&["--color", "always"], &[], (StreamKind::Terminal, StreamKind::Terminal));
}

#[test]
fn terminals_get_no_control_characters_in_json() {
    check_all_commands(&["--json"], &[], (StreamKind::Terminal, StreamKind::Terminal));
}

#[test]
fn stdout_and_stderr_are_escaped_independently() {
    check_all_commands(&[], &[], (StreamKind::Pipe, StreamKind::Terminal));
    check_all_commands(&[], &[], (StreamKind::Terminal, StreamKind::Pipe));
}

#[test]
fn pipes_receive_exact_patch_bytes() {
    let (case, empty) = hostile_fixture();
    let patch = run_piped(&case, &["snapshot", "diff", &empty]).stdout;
    let content = fs_err::read(case.path("p").join("other.txt")).expect("readable");
    let lines = content.split_inclusive(|byte| *byte == b'\n');
    let added: Vec<u8> = lines.flat_map(|line| [b"+", line].concat()).collect();
    assert!(patch.windows(added.len()).any(|part| part == added), "{}", patch.escape_ascii());
    // The styles are between the bytes, never instead of them.
    let coloured = run_piped(&case, &["--color", "always", "diff"]).stdout;
    let plain = run_piped(&case, &["diff"]).stdout;
    assert!(plain.windows(4).any(|part| part == b"\x1b[2J"), "{}", plain.escape_ascii());
    let mut text = String::from_utf8(coloured).expect("UTF-8");
    for style in ["0", "1", "2", "31", "32", "33"] {
        text = text.replace(&format!("\u{1b}[{style}m"), "");
    }
    assert_eq!(text.as_bytes(), plain);
}

#[test]
fn piped_json_escapes_control_characters() {
    let (case, _) = hostile_fixture();
    let out = run_piped(&case, &["session", "list", "--json"]).stdout;
    assert_eq!(find_forbidden(&out), None);
    let listed: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(listed["sessions"][0]["title"], HOSTILE_NAME);
}

#[test]
fn exec_passes_command_bytes_through() {
    let case = CliFixture::empty();
    let command = ["exec", "--", "printf", r"\033[2J\302\233\233\342\200\256\r"];
    for target in [StreamKind::Terminal, StreamKind::Pipe] {
        let written = pseudo_terminal::run_with_streams(
            &mut turnstone_command(&case, &command),
            target,
            StreamKind::Pipe,
        )
        .expect("it runs");
        assert_eq!(written.stdout.escape_ascii().to_string(), r"\x1b[2J\xc2\x9b\x9b\xe2\x80\xae\r");
    }
}

#[test]
fn logs_of_a_server_are_escaped_on_a_terminal() {
    let case = CliFixture::empty();
    let (end, reader) = pseudo_terminal::open_stream(StreamKind::Terminal).expect("a terminal");
    let mut command = turnstone_command(&case, &["serve", "--port", "0", "--json", "--print-logs"]);
    command.env("OPENCODE_SERVER_PASSWORD", "pw").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(end).spawn().expect("starts");
    command.stderr(Stdio::null());
    let address = await_ready(&mut child);
    let body =
        json!({ "service": HOSTILE_NAME, "level": "warn", "message": HOSTILE_NAME }).to_string();
    let mut socket = TcpStream::connect(&address).expect("connects");
    let head = format!(
        "POST /log HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\
         content-type: application/json\r\nauthorization: Basic b3BlbmNvZGU6cHc=\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).expect("asked");
    let (status, _) = read_response(&mut socket);
    child.kill().expect("killed");
    child.wait().expect("gone");
    let log = reader.finish().expect("a log");
    assert_eq!((status, find_forbidden(&log)), (200, None));
    let text = String::from_utf8(log).expect("UTF-8");
    assert!(text.contains("owned") && text.contains("35;7m"), "{text}");
}
