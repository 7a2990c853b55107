//! No data can command a terminal, whatever the command and the colours; pipes get exact bytes.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use turnstone_testkit::terminal::{self, Target, Written};

use crate::case::Case;
use crate::exec::PATH;
use crate::program::runnable_commands;
use crate::shell::{answer, ready};

/// A file name that sets a title, changes colours, clears the screen and turns the direction.
const NAME: &str = "a\u{1b}]0;owned\u{7}\u{1b}[35;7mb\r\u{9b}2J\u{9d}0;x\u{9c}\u{7f}\u{202e}\u{2066}\u{61c}\u{200f}z";
/// What is visible of it.
const VISIBLE: &str = "a␛]0;owned␇␛[35;7mb";
/// A name without what git refuses in a branch.
const BRANCH: &str = "b\u{9b}31m\u{202e}\u{2067}z";
/// A command that writes all of it, and bytes that are no UTF-8, into a file and to its output.
const SCRIPT: &str = r#"printf '%s\n\233\033[2J\377\t\r\n' "$1" | tee "$1" other.txt"#;

/// Commands that print nothing of a project, or do not end by themselves.
const ELSEWHERE: [&[&str]; 3] = [&["exec"], &["snapshot", "watch"], &["serve"]];

#[expect(clippy::disallowed_methods, reason = "the streams of the program are terminals here")]
fn program(case: &Case, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command
        .env_clear()
        .envs([("PATH", PATH), ("TZ", "UTC"), ("USER", "ada"), ("TERM", "xterm-256color")])
        .env("HOME", case.place("home"))
        .env("TURNSTONE_DATA", case.data())
        .current_dir(case.place("p"))
        .args(args);
    command
}

fn turnstone(case: &Case, args: &[&str]) -> Command {
    program(case, env!("CARGO_BIN_EXE_turnstone"), args)
}

fn piped(case: &Case, args: &[&str]) -> Written {
    terminal::run(&mut turnstone(case, args), Target::Pipe, Target::Pipe).expect("it runs")
}

/// The tree a capture of the project has now.
fn track(case: &Case) -> String {
    let tracked = piped(case, &["snapshot", "track"]);
    String::from_utf8(tracked.stdout).expect("a tree").trim().to_owned()
}

/// A repository whose branch, file names, contents, titles and outputs are all hostile; and the
/// tree before there was any file.
fn hostile() -> (Case, String) {
    let case = Case::empty();
    for args in [
        &["init", "-q", "-b", BRANCH][..],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", NAME],
    ] {
        assert!(program(&case, "git", args).status().expect("git runs").success());
    }
    let empty = track(&case);
    let exec = ["exec", "--title", NAME, "--", "sh", "-c", SCRIPT, "sh", NAME];
    assert_eq!(piped(&case, &exec).status.code(), Some(0));
    (case, empty)
}

/// Every command with something hostile to show, in an order in which each has something to do.
fn commands(session: &str, empty: &str, tree: &str) -> Vec<Vec<String>> {
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
        "snapshot|track",
        "snapshot|list",
        "snapshot|show|TREE",
        "snapshot|diff|EMPTY",
        "snapshot|diff|EMPTY|--stat",
        "snapshot|restore|TREE|--dry-run",
        "snapshot|restore|TREE|NAME",
        "snapshot|undo",
        "snapshot|du",
        "snapshot|gc",
        "snapshot|verify",
        "snapshot|git-dir",
        "worktree|create|NAME",
        "worktree|create|sound",
        "worktree|list",
        "worktree|reset|sound|--dry-run",
        "worktree|remove|sound|--dry-run",
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
            .replace("NAME", NAME)
    };
    lines.iter().map(|line| line.split('|').map(filled).collect()).collect()
}

/// What a terminal must not get, beyond the styles of this program.
fn forbidden(bytes: &[u8]) -> Option<String> {
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
fn sweep(mode: &[&str], environment: &[(&str, &str)], targets: (Target, Target)) {
    let (case, empty) = hostile();
    let listed: Value =
        serde_json::from_slice(&piped(&case, &["session", "list", "--json"]).stdout).expect("JSON");
    let session = listed[0]["id"].as_str().expect("a session").to_owned();
    let tree = track(&case);
    let (mut shown, mut seen) = (String::new(), Vec::new());
    for words in commands(&session, &empty, &tree) {
        let args: Vec<&str> =
            mode.iter().copied().chain(words.iter().map(String::as_str)).collect();
        let mut command = turnstone(&case, &args);
        command.envs(environment.iter().copied());
        let written = terminal::run(&mut command, targets.0, targets.1).expect("it runs");
        for (target, bytes) in [(targets.0, &written.stdout), (targets.1, &written.stderr)] {
            if target == Target::Terminal {
                assert_eq!(forbidden(bytes), None, "{words:?} {mode:?} {environment:?}");
                shown.push_str(std::str::from_utf8(bytes).expect("UTF-8"));
            }
        }
        assert_ne!(written.status.code(), Some(70), "{words:?}: {written:?}");
        seen.push(words);
    }
    let is_elsewhere = |leaf: &[String]| ELSEWHERE.iter().any(|known| leaf == *known);
    for leaf in runnable_commands().iter().filter(|leaf| !is_elsewhere(leaf)) {
        let is_covered = seen.iter().any(|words| words.starts_with(leaf));
        assert!(is_covered, "{leaf:?} is not in the sweep");
    }
    assert!(shown.matches(VISIBLE).count() > 5 || mode.contains(&"--json"), "{shown}");
}

#[test]
fn terminals_get_no_control_characters_with_automatic_colour() {
    sweep(&[], &[], (Target::Terminal, Target::Terminal));
}

#[test]
fn terminals_get_no_control_characters_without_colour() {
    sweep(&[], &[("NO_COLOR", "1")], (Target::Terminal, Target::Terminal));
}

#[test]
fn terminals_get_no_control_characters_with_forced_colour() {
    sweep(&["--color", "always"], &[], (Target::Terminal, Target::Terminal));
}

#[test]
fn terminals_get_no_control_characters_in_json() {
    sweep(&["--json"], &[], (Target::Terminal, Target::Terminal));
}

#[test]
fn each_stream_is_judged_by_itself() {
    sweep(&[], &[], (Target::Pipe, Target::Terminal));
    sweep(&[], &[], (Target::Terminal, Target::Pipe));
}

#[test]
fn pipes_get_patches_byte_for_byte() {
    let (case, empty) = hostile();
    let patch = piped(&case, &["snapshot", "diff", &empty]).stdout;
    let content = fs_err::read(case.place("p").join("other.txt")).expect("readable");
    let lines = content.split_inclusive(|byte| *byte == b'\n');
    let added: Vec<u8> = lines.flat_map(|line| [b"+", line].concat()).collect();
    assert!(patch.windows(added.len()).any(|part| part == added), "{}", patch.escape_ascii());
    // The styles are between the bytes, never instead of them.
    let coloured = piped(&case, &["--color", "always", "diff"]).stdout;
    let plain = piped(&case, &["diff"]).stdout;
    assert!(plain.windows(4).any(|part| part == b"\x1b[2J"), "{}", plain.escape_ascii());
    let mut text = String::from_utf8(coloured).expect("UTF-8");
    for style in ["0", "1", "2", "31", "32", "33"] {
        text = text.replace(&format!("\u{1b}[{style}m"), "");
    }
    assert_eq!(text.as_bytes(), plain);
}

#[test]
fn json_in_a_pipe_escapes_and_keeps_the_value() {
    let (case, _) = hostile();
    let out = piped(&case, &["session", "list", "--json"]).stdout;
    assert_eq!(forbidden(&out), None);
    let listed: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(listed[0]["title"], NAME);
}

#[test]
fn exec_passes_the_bytes_of_its_command_through() {
    let case = Case::empty();
    let command = ["exec", "--", "printf", r"\033[2J\302\233\233\342\200\256\r"];
    for target in [Target::Terminal, Target::Pipe] {
        let written =
            terminal::run(&mut turnstone(&case, &command), target, Target::Pipe).expect("it runs");
        assert_eq!(written.stdout.escape_ascii().to_string(), r"\x1b[2J\xc2\x9b\x9b\xe2\x80\xae\r");
    }
}

#[test]
fn logs_of_a_server_are_escaped_on_a_terminal() {
    let case = Case::empty();
    let (end, reader) = terminal::open(Target::Terminal).expect("a terminal");
    let mut command = turnstone(&case, &["serve", "--port", "0", "--json", "--print-logs"]);
    command.env("OPENCODE_SERVER_PASSWORD", "pw").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(end).spawn().expect("starts");
    command.stderr(Stdio::null());
    let address = ready(&mut child);
    let body = json!({ "service": NAME, "level": "warn", "message": NAME }).to_string();
    let mut socket = TcpStream::connect(&address).expect("connects");
    let head = format!(
        "POST /log HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\
         content-type: application/json\r\nauthorization: Basic b3BlbmNvZGU6cHc=\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).expect("asked");
    let (status, _) = answer(&mut socket);
    child.kill().expect("killed");
    child.wait().expect("gone");
    let log = reader.finish().expect("a log");
    assert_eq!((status, forbidden(&log)), (200, None));
    let text = String::from_utf8(log).expect("UTF-8");
    assert!(text.contains("owned") && text.contains("35;7m"), "{text}");
}
