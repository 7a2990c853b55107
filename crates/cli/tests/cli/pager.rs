//! Long output on a terminal goes through a pager.

use std::process::Command;

use turnstone_testkit::pseudo_terminal::{CapturedOutput, StreamKind, run_with_streams};
use turnstone_testkit::required_tools::find_program;

use crate::exec::{TEST_PATH, exec_shell, run_program};
use crate::fixture::CliFixture;
use crate::terminal_safety::find_forbidden;

/// A pager that marks what goes through it, and leaves the rest of the bytes alone.
const MARKING_PAGER: &str = "sed s/^/PAGED:/";

#[expect(clippy::disallowed_methods, reason = "standard output is a terminal here")]
fn run_on_terminal(case: &CliFixture, env: &[(&str, &str)], args: &[&str]) -> CapturedOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnstone"));
    command
        .env_clear()
        .envs([("PATH", TEST_PATH), ("TZ", "UTC"), ("USER", "ada"), ("TERM", "xterm-256color")])
        .envs(env.iter().copied())
        .env("HOME", case.path("home"))
        .env("TURNSTONE_DATA", case.data_dir())
        .current_dir(case.path("p"))
        .args(args);
    run_with_streams(&mut command, StreamKind::Terminal, StreamKind::Pipe).expect("it runs")
}

fn stdout_text(ran: &CapturedOutput) -> String {
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    String::from_utf8(ran.stdout.clone()).expect("UTF-8")
}

#[test]
fn long_output_goes_through_the_chosen_pager() {
    let case = CliFixture::empty();
    exec_shell(&case, "printf 'one\\n\\033[2Jtwo\\n' > f");
    let (chosen, other) = (("TURNSTONE_PAGER", MARKING_PAGER), ("PAGER", "no-such-pager"));
    for args in [&["log"][..], &["diff"], &["session", "list"], &["snapshot", "list"]] {
        let shown = stdout_text(&run_on_terminal(&case, &[chosen, other], args));
        assert!(shown.lines().all(|line| line.starts_with("PAGED:")), "{args:?} {shown}");
        assert!(shown.contains("\u{1b}["), "{args:?}: colours stay: {shown}");
        assert!(!shown.contains("\u{1b}[2J"), "data commands no terminal: {shown}");
        let env = [("PAGER", MARKING_PAGER), ("NO_COLOR", "1")];
        let plain = stdout_text(&run_on_terminal(&case, &env, args));
        assert!(plain.starts_with("PAGED:") && !plain.contains('\u{1b}'), "{args:?} {plain}");
    }
    let diff = run_on_terminal(&case, &[chosen], &["diff"]);
    assert!(stdout_text(&diff).contains("␛[2Jtwo"), "{diff:?}");
    assert_eq!(
        diff.stderr,
        b"1 file changed, 2 lines added, 0 lines removed\nevidence: 1 traced\n"
    );

    for (env, args) in [
        (chosen, &["log", "--no-pager"][..]),
        (chosen, &["log", "--json"]),
        (chosen, &["status"]),
        (("TURNSTONE_PAGER", ""), &["log"]),
        (("TURNSTONE_PAGER", "cat"), &["log"]),
        (("TURNSTONE_PAGER", "no-such-pager"), &["log"]),
    ] {
        let shown = stdout_text(&run_on_terminal(&case, &[env, ("PAGER", MARKING_PAGER)], args));
        assert!(!shown.is_empty() && !shown.contains("PAGED:"), "{env:?} {args:?} {shown}");
    }
    let shell = ("TURNSTONE_PAGER", "sed 's/^/PAGED:/' | sed 's/$/!/'");
    let shown = stdout_text(&run_on_terminal(&case, &[shell], &["log"]));
    assert!(shown.starts_with("PAGED:") && shown.ends_with("!\n"), "{shown}");
    let mut piped = case.command("p", &["log"]);
    let ran = case.run_command(piped.env("PATH", TEST_PATH).env("PAGER", MARKING_PAGER));
    assert!(ran.code == 0 && !ran.out.contains("PAGED:"), "{ran:?}");
}

#[test]
fn pager_that_is_closed_early_is_no_error() {
    let case = CliFixture::empty();
    exec_shell(&case, "seq 1 200000 > f");
    let ran = run_on_terminal(&case, &[("PAGER", "head -n 1")], &["diff"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(String::from_utf8_lossy(&ran.stdout).lines().count(), 1);
    assert!(!String::from_utf8_lossy(&ran.stderr).contains("error"), "{ran:?}");
    // An error comes after what the pager showed, with its own code.
    let ran = run_on_terminal(&case, &[("PAGER", MARKING_PAGER)], &["log", "nothing"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert_eq!(run_program(&case, &["log"]).code, 0);
}

/// What a hostile program would tell the terminal: write the clipboard, make a link, set the title, clear the screen,
/// in seven and eight bits, and turn the direction.
const HOSTILE_TEXT: &str = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{1b}]8;;http:x\u{1b}\\c\u{1b}]0;t\u{7}\u{1b}[2J\u{9d}52;c;eA==\u{9c}\u{9b}2J\r\u{8}\u{202e}\u{2066}z";

/// What `less` itself writes: end of line, end of style, and the keypad.
const LESS_SEQUENCES: [&str; 8] =
    ["\u{1b}[K", "\u{1b}[m", "\u{1b}[?1h", "\u{1b}=", "\u{1b}[?1l", "\u{1b}>", "\r\n", "\r"];

/// The pagers people have, on what an agent may leave: none of it reaches the terminal in any colour mode, although
/// `less -R` would pass on links.
#[test]
fn real_pagers_get_nothing_that_commands_the_terminal() {
    let case = CliFixture::empty();
    let empty = case.run(&["snapshot", "track"]).out.trim().to_owned();
    let script = r#"printf '%s\n\233\n' "$1" >f; printf '%s\n' "$1" >"$1""#;
    let ran = run_program(
        &case,
        &["exec", "--title", HOSTILE_TEXT, "--", "sh", "-c", script, "sh", HOSTILE_TEXT],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let less = find_program("less").expect("less is installed").display().to_string();
    let (raw, plain) = (format!("{less} -FRXN"), format!("{less} -FXN"));
    let commands = [&["diff"][..], &["log"], &["snapshot", "diff", &empty]];
    let modes = [&[][..], &["--color", "always"], &["--color", "never"]];
    // `less` shows what fits on the screen and ends.
    let screen =
        [("LINES", "500"), ("COLUMNS", "300"), ("LC_ALL", "C.UTF-8"), ("LESSHISTFILE", "-")];
    for pager in [&raw, &plain, "cat", "sh -c cat"] {
        for (args, mode) in commands.iter().flat_map(|it| modes.map(|mode| (it, mode))) {
            for no_color in [&[][..], &[("NO_COLOR", "1")]] {
                let env = [&screen[..], &[("PAGER", pager)], no_color].concat();
                let shown = run_on_terminal(&case, &env, &[mode, args].concat());
                let mut text = stdout_text(&shown);
                assert!(text.contains('␛'), "{pager} {args:?} {mode:?}: {text:?}");
                let is_numbered = text.contains("      1 ");
                assert_eq!(is_numbered, pager.contains("less"), "{pager} {args:?}: {text:?}");
                LESS_SEQUENCES.iter().for_each(|known| text = text.replace(known, "\n"));
                let found = find_forbidden(text.as_bytes());
                assert_eq!(found, None, "{pager} {args:?} {mode:?} {no_color:?}");
                assert!(!text.contains("\u{1b}]"), "{pager} {args:?} {mode:?}: {text:?}");
            }
        }
    }
}

/// A repository brings no pager, whatever `PATH` says.
#[test]
fn pager_is_not_taken_from_the_current_directory() {
    use std::os::unix::fs::PermissionsExt;
    let case = CliFixture::empty();
    exec_shell(&case, "echo one > f");
    for name in ["less", "sed"] {
        let script = format!("#!/bin/sh\ntouch {}\ncat\n", case.path("proof").display());
        fs_err::write(case.path("p").join(name), script).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(case.path("p").join(name), mode).expect("set");
    }
    for path in [format!(":{TEST_PATH}"), format!(".:{TEST_PATH}"), "../p:".to_owned()] {
        for pager in ["", "sed s/^/PAGED:/", "sed s/^/PAGED:/ | sed s/x/y/"] {
            let env: &[(&str, &str)] = &[("PATH", &path), ("PAGER", pager)];
            let env = if pager.is_empty() { &env[..1] } else { env };
            let shown = stdout_text(&run_on_terminal(&case, env, &["log"]));
            assert!(!shown.is_empty(), "{path} {pager:?}");
            assert!(!case.path("proof").exists(), "{path} {pager:?} {shown}");
        }
    }
}
