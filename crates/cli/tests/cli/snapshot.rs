//! `turnstone snapshot`: captures, the way back, and the way back from that.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::fixture::{CliFixture, ProgramOutput, read_file};

fn write_file(case: &CliFixture, path: &str, text: &str) {
    let path = case.path(path);
    fs_err::create_dir_all(path.parent().expect("parent")).expect("folder");
    fs_err::write(path, text).expect("written");
}

/// Captures `p` and returns the tree.
fn capture_tree(case: &CliFixture) -> String {
    let tree = case.run_json(&["snapshot", "track"])["tree"].as_str().expect("a tree").to_owned();
    assert_eq!(tree.len(), 40);
    tree
}

/// The output without ids, times and durations.
fn mask_ids_and_times(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words = line.split(' ').map(|word| {
            let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            let is_hex = bare.len() >= 12 && bare.bytes().all(|b| b.is_ascii_hexdigit());
            let is_time = bare.len() == 5 && bare.as_bytes()[2] == b':';
            match (is_hex, is_time) {
                (true, _) => word.replace(bare, "ID"),
                (_, true) => word.replace(bare, "TIME"),
                _ => word.to_owned(),
            }
        });
        out.push_str(&words.collect::<Vec<_>>().join(" "));
        out.push('\n');
    }
    out
}

/// Without how long it took.
fn strip_durations(text: &str) -> String {
    let cut = |line: &str| match line.rfind(" (") {
        Some(at) if line.ends_with("s)") => line[..at].to_owned(),
        _ => line.to_owned(),
    };
    mask_ids_and_times(&text.lines().map(cut).collect::<Vec<_>>().join("\n"))
}

/// Another program.
#[expect(clippy::disallowed_methods, reason = "programs that tests need, and the one under test")]
fn other_program(name: impl AsRef<OsStr>) -> Command {
    Command::new(name)
}

fn run_git(case: &CliFixture, place: &str, args: &[&str]) {
    let mut git = other_program("git");
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = git.current_dir(case.path(place)).args(args).output().expect("git starts");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn capture_prints_summary_line_and_json() {
    let case = CliFixture::empty();
    write_file(&case, "p/a.txt", "one\n");
    write_file(&case, "p/node_modules/x", "generated\n");

    let ran = case.run(&["snapshot", "track"]);
    assert_eq!((ran.code, ran.out.trim().len()), (0, 40), "{ran:?}");
    assert_snapshot!(strip_durations(&ran.err), @r"
    1 file, 1 changed
    skipped 1 generated
    ");
    let again = case.run(&["snapshot", "track"]);
    assert_eq!(again.out, ran.out);
    assert!(again.err.starts_with("1 file, unchanged since today "), "{}", again.err);

    write_file(&case, "p/b.txt", "two\n");
    let value = case.run_json(&["snapshot", "track"]);
    assert_eq!(
        (&value["files"], &value["changed"], &value["mode"]),
        (&json!(2), &json!(1), &json!("walk"))
    );
    assert_eq!(value["skipped"], json!([{ "path": "node_modules", "reason": "generated" }]));
    assert!(value["elapsed_ms"].is_number());
    assert!(case.data_dir().join("store/registry.json").exists());
}

#[test]
fn captures_are_listed_shown_and_compared() {
    let case = CliFixture::empty();
    write_file(&case, "p/a.txt", "one\n");
    let first = capture_tree(&case);
    write_file(&case, "p/a.txt", "two\n");
    write_file(&case, "p/bin", "\0\0");
    let second = capture_tree(&case);

    let listed = case.run_json(&["snapshot", "list"]);
    let trees: Vec<&Value> =
        listed.as_array().expect("list").iter().map(|it| &it["tree"]).collect();
    assert_eq!(trees, [&json!(second), &json!(first)]);
    let ran = case.run(&["snapshot", "list"]);
    assert_snapshot!(mask_ids_and_times(&ran.out.replace(&second[..12], &"0".repeat(12)).replace(&first[..12], &"1".repeat(12))), @r"
    TREE          TIME         FILES  MODE
    ID  today TIME      2  walk
    ID  today TIME      1  walk
    ");
    let ran = case.run(&["snapshot", "show", &second[..8]]);
    assert_snapshot!(ran.out, @r"
    0644  4 B  a.txt
    0644  2 B  bin
    ");
    let ran = case.run(&["snapshot", "diff", &first, &second]);
    assert!(ran.out.contains("-one\n+two\n"), "{ran:?}");
    assert!(ran.out.contains("GIT binary patch\nliteral 2\n"), "{ran:?}");
    assert_eq!(ran.err, "");
    let ran = case.run(&["snapshot", "diff", &first, "--stat"]);
    assert_snapshot!(ran.out, @r"
    modified      +1  -1  a.txt
    added     binary      bin
    ");
    assert_eq!(ran.err, "2 files changed, 1 line added, 1 line removed\n");
    let value = case.run_json(&["snapshot", "diff", &first]);
    assert_eq!(
        (&value["files"][1]["binary"], &value["files"][0]["status"]),
        (&json!(true), &json!("modified"))
    );
    assert_eq!(case.run(&["snapshot", "diff", &second]).err, "no differences\n");
}

#[test]
fn snapshot_undo_goes_back_and_redo_forward() {
    let case = CliFixture::empty();
    let mut trees = Vec::new();
    for text in ["one\n", "two\n", "three\n"] {
        write_file(&case, "p/a", text);
        trees.push(capture_tree(&case));
    }
    let read = || read_file(&case.path("p/a"));
    assert_eq!(case.run(&["snapshot", "restore", &trees[1]]).code, 0);
    assert_eq!(case.run(&["snapshot", "restore", &trees[0]]).code, 0);
    assert_eq!(read(), "one\n");
    for (command, text, reverse) in [
        ("undo", "two\n", "redo"),
        ("undo", "three\n", "redo"),
        ("redo", "two\n", "undo"),
        ("redo", "one\n", "undo"),
        ("undo", "two\n", "redo"),
    ] {
        let ran = case.run(&["snapshot", command]);
        assert_eq!((ran.code, read().as_str()), (0, text), "{ran:?}");
        let hint = format!("`turnstone snapshot {reverse}` reverses this\n");
        assert!(ran.err.ends_with(&hint), "{ran:?}");
    }
    assert_eq!(case.run(&["snapshot", "redo", "--dry-run"]).out, "restore   a\n");
    assert_eq!(case.run(&["snapshot", "redo"]).code, 0);
    let ran = case.run(&["snapshot", "redo"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("no undo is left to reverse in ~/p\nhint: "), "{ran:?}");
}

#[test]
fn restore_can_be_previewed_undone_and_redone() {
    let case = CliFixture::empty();
    write_file(&case, "p/a.txt", "one\n");
    write_file(&case, "p/src/kept.txt", "kept\n");
    let first = capture_tree(&case);
    write_file(&case, "p/a.txt", "two\n");
    write_file(&case, "p/new.txt", "new\n");

    let ran = case.run(&["snapshot", "restore", &first[..7], "--dry-run"]);
    assert_eq!(ran.code, 0);
    assert_snapshot!(ran.out, @r"
    restore   a.txt
    remove    new.txt
    ");
    assert_eq!(ran.err, "1 file to restore, 1 file to remove (dry run: no file was changed)\n");
    assert_eq!(read_file(&case.path("p/a.txt")), "two\n");

    let ran = case.run(&["snapshot", "restore", &first[..7]]);
    assert_eq!(
        ran.err,
        "1 file restored, 1 file removed\nhint: `turnstone snapshot undo` reverses this\n"
    );
    assert_eq!(read_file(&case.path("p/a.txt")), "one\n");
    assert!(!case.path("p/new.txt").exists());

    let value = case.run_json(&["snapshot", "undo", "--dry-run"]);
    assert_eq!(
        (&value["restored"], &value["dry_run"]),
        (&json!(["a.txt", "new.txt"]), &json!(true))
    );
    let value = case.run_json(&["snapshot", "undo"]);
    assert_eq!(value["restored"], json!(["a.txt", "new.txt"]));
    assert!(value["guard"].is_string() && value["operation"].is_string());
    assert_eq!(read_file(&case.path("p/new.txt")), "new\n");

    let ran = case.run(&["snapshot", "redo"]);
    assert_snapshot!(mask_ids_and_times(&ran.err), @r"
    redoing: undo ID (today TIME)
    1 file restored, 1 file removed
    hint: `turnstone snapshot undo` reverses this
    ");
    assert_eq!(read_file(&case.path("p/a.txt")), "one\n");
    let ran = case.run(&["snapshot", "undo", "--list"]);
    assert_eq!(ran.out.lines().count(), 4, "{}", ran.out);
}

#[test]
fn undo_of_restore_keeps_later_edit_and_exits_with_4() {
    let case = CliFixture::empty();
    write_file(&case, "p/a.txt", "one\n");
    let first = capture_tree(&case);
    write_file(&case, "p/a.txt", "two\n");
    assert_eq!(case.run(&["snapshot", "restore", &first]).code, 0);
    write_file(&case, "p/a.txt", "human\n");

    let ran = case.run(&["snapshot", "undo"]);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(ran.out, "conflict  a.txt  (the same lines have changed since)\n");
    assert!(ran.err.ends_with("1 file in conflict\n"), "{}", ran.err);
    assert_eq!(read_file(&case.path("p/a.txt")), "human\n");
}

#[test]
fn commands_in_subdirectory_are_limited_to_it() {
    let case = CliFixture::empty();
    run_git(&case, "p", &["init", "-q"]);
    write_file(&case, "p/a.txt", "one\n");
    write_file(&case, "p/src/b.txt", "one\n");
    let first = capture_tree(&case);
    write_file(&case, "p/a.txt", "two\n");
    write_file(&case, "p/src/b.txt", "two\n");

    let ran = case.run_in("p/src", &["snapshot", "diff", &first, "--stat"]);
    assert_eq!(ran.out, "modified  +1  -1  src/b.txt\n");
    assert!(ran.err.starts_with("limited to src/ (use --whole for all of ~/p)\n"), "{}", ran.err);
    let whole = case.run_in("p/src", &["snapshot", "diff", &first, "--stat", "--whole"]);
    assert_eq!(whole.out.lines().count(), 2);
    let ran = case.run_in("p/src", &["snapshot", "restore", &first]);
    assert_eq!(ran.out, "restored  src/b.txt\n");
    let ran = case.run_in("p/src", &["snapshot", "restore", &first, "../a.txt"]);
    assert_eq!(ran.out, "restored  a.txt\n");
    let ran = case.run_in("p/src", &["snapshot", "restore", &first, "../../q"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: ../../q is outside of ~/p\nhint: "), "{}", ran.err);
}

#[test]
fn restore_can_keep_added_files() {
    let case = CliFixture::empty();
    write_file(&case, "p/a.txt", "one\n");
    let first = capture_tree(&case);
    write_file(&case, "p/new.txt", "new\n");

    let ran = case.run(&["snapshot", "restore", &first, "--keep-added"]);

    assert_eq!(ran.err, "nothing to restore\n");
    assert!(case.path("p/new.txt").exists());
}

#[test]
fn snapshot_errors_have_hints() {
    let case = CliFixture::empty();
    let code_and_message = |ran: ProgramOutput| (ran.code, mask_ids_and_times(&ran.err));
    assert_eq!(
        code_and_message(case.run(&["snapshot", "list"])),
        (
            1,
            "error: no captures of ~/p yet\n\
             hint: create the first capture with `turnstone snapshot track`\n"
                .to_owned()
        )
    );
    assert!(!case.data_dir().exists(), "listing creates nothing");
    write_file(&case, "p/a.txt", "one\n");
    capture_tree(&case);
    assert_eq!(
        code_and_message(case.run(&["snapshot", "show", "beef"])),
        (
            1,
            "error: no capture of ~/p matches \"beef\"\n\
             hint: `turnstone snapshot list` lists the captures\n"
                .to_owned()
        )
    );
    assert_eq!(
        code_and_message(case.run(&["snapshot", "undo"])).1,
        "error: nothing has been restored in ~/p yet\n\
         hint: `turnstone snapshot list` lists captures, `turnstone snapshot restore TREE` restores one\n"
    );
    let mut home = case.command("q", &["snapshot", "track"]);
    let ran = case.run_command(home.env("HOME", case.path("q")));
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("~/q is not captured automatically"), "{}", ran.err);
    assert!(ran.err.contains("hint: change to a project directory, or use "), "{}", ran.err);
    let mut home = case.command("q", &["snapshot", "track", "."]);
    assert_eq!(case.run_command(home.env("HOME", case.path("q"))).code, 1, "a dot is no name");
    let mut home = case.command("q", &["snapshot", "track", "../q"]);
    assert_eq!(case.run_command(home.env("HOME", case.path("q"))).code, 0);
    let mut home = case.command("p", &["snapshot", "track", "--insist"]);
    assert_eq!(case.run_command(home.env("HOME", case.path("p"))).code, 0);
}

#[test]
fn moved_directory_keeps_its_captures() {
    let case = CliFixture::empty();
    write_file(&case, "q/a.txt", "one\n");
    let tree = case.run_in("q", &["snapshot", "track"]).out;
    fs_err::rename(case.path("q"), case.path("moved")).expect("moved");

    let ran = case.run_in("moved", &["snapshot", "list", "--json"]);

    assert_eq!(ran.err, "~/q has moved to ~/moved; its captures are kept\n");
    assert!(ran.out.contains(tree.trim()));
}

#[test]
fn du_verify_gc_and_git_dir_report() {
    let case = CliFixture::empty();
    write_file(&case, "p/a.txt", "one\n");
    capture_tree(&case);

    let ran = case.run(&["snapshot", "du"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for text in ["~/p: ", "PINNED BY", "LARGEST PATHS", "DIRECTORY", "total"] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    assert!(case.run_json(&["snapshot", "du"])["total"].as_u64().expect("bytes") > 0);
    let ran = case.run(&["snapshot", "verify"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "verified 1 capture, 6 objects: no damage\n"));
    let value = case.run_json(&["snapshot", "gc", "--dry-run"]);
    assert_eq!((&value["dropped_groups"], &value["dry_run"]), (&json!([]), &json!(true)));
    assert_eq!(case.run(&["snapshot", "gc"]).code, 0);
    let ran = case.run(&["snapshot", "git-dir"]);
    assert!(ran.out.starts_with("~/data/store/") && ran.out.ends_with("/git\n"), "{}", ran.out);
    let elsewhere = case.run_in("nowhere", &["snapshot", "du"]);
    assert!(elsewhere.out.contains("~/p"), "{elsewhere:?}");
}

#[test]
fn config_sets_limits_and_rejects_typos() {
    let case = CliFixture::empty();
    write_file(&case, "p/large", &"x".repeat(2_000));
    write_file(&case, "config.json", r#"{ "snapshot": { "max_file_size": "1 KB" } }"#);
    let mut command = case.command("p", &["snapshot", "track", "--json"]);
    let ran = case.run_command(command.env("TURNSTONE_CONFIG", case.path("config.json")));
    let value: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(value["skipped"], json!([{ "path": "large", "reason": "too_large" }]));

    write_file(&case, "config.json", r#"{ "snapshot": { "max_file_sice": 1 } }"#);
    let mut command = case.command("p", &["snapshot", "track"]);
    let ran = case.run_command(command.env("TURNSTONE_CONFIG", case.path("config.json")));
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("unknown field `max_file_sice`"), "{}", ran.err);
}

/// Starts `snapshot watch` and waits until it is ready.
fn start_watch(case: &CliFixture) -> Child {
    let mut command = other_program(assert_cmd::cargo::cargo_bin("turnstone"));
    command.env_clear().env("HOME", case.path("home")).env("TURNSTONE_DATA", case.data_dir());
    command.current_dir(case.path("p")).args(["snapshot", "watch"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    assert!(line.starts_with("watching "), "{line}");
    child
}

/// Proves R11.
#[test]
fn watch_serves_other_commands_and_may_die() {
    let case = CliFixture::empty();
    write_file(&case, "p/a.txt", "one\n");
    let mut child = start_watch(&case);

    let value = case.run_json(&["snapshot", "track"]);
    assert_eq!(value["mode"], "journal", "only what changed is looked at: {value}");
    let first = value["tree"].as_str().expect("a tree").to_owned();
    write_file(&case, "p/a.txt", "two\n");
    assert_eq!(case.run(&["snapshot", "restore", &first]).out, "restored  a.txt\n");
    let second = case.command("p", &["snapshot", "watch"]).output().expect("it runs");
    assert_eq!(second.status.code(), Some(4));
    let code_and_message = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        code_and_message
            .starts_with("error: the snapshot store is in use by another process (process "),
        "{code_and_message}"
    );

    let mut kill = other_program("kill");
    assert!(kill.args(["-TERM", &child.id().to_string()]).status().expect("kill").success());
    assert!(child.wait().expect("it ends").success());
    assert_eq!(case.run_json(&["snapshot", "undo"])["restored"], json!(["a.txt"]));

    let mut child = start_watch(&case);
    child.kill().expect("killed");
    child.wait().expect("it is dead");
    assert_eq!(read_file(&case.path("p/a.txt")), "two\n");
    assert_eq!(case.run(&["snapshot", "track"]).code, 0, "nothing of the dead is in the way");
}
