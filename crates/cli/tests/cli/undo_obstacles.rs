//! `turnstone undo --dry-run` says what the undo does, obstacles included: the same files, actions, reasons
//! and exit code, as text and as JSON.

use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use serde_json::Value;
use turnstone_testkit::small_disk::SmallDisk;

use crate::exec::{await_file, exec_shell, run_program, start_program};
use crate::fixture::{CliFixture, ProgramOutput};
use crate::undo_modes::{mode_of, read_text, set_mode, write_file};

/// Runs the program, with these arguments, for one fixture.
type Runner<'r> = &'r dyn Fn(&CliFixture, &[&str]) -> ProgramOutput;

/// Undoes with and without `--dry-run`, as text in one fixture and as JSON in another one; returns the exit
/// code and the text of the undo.
fn undo_twice_as_predicted<T>(
    make: impl Fn() -> Option<(T, CliFixture)>,
    run: Runner<'_>,
) -> Option<(i32, String)> {
    let (_held, case) = make()?;
    let planned = run(&case, &["undo", "--dry-run"]);
    let done = run(&case, &["undo"]);
    assert_eq!(to_past(&planned.out), done.out, "{planned:?}\n{done:?}");
    let (_held, case) = make()?;
    let planned_json = run(&case, &["undo", "--dry-run", "--json"]);
    let done_json = run(&case, &["undo", "--json"]);
    assert_eq!(comparable_json(&planned_json), comparable_json(&done_json));
    let codes = [planned.code, planned_json.code, done_json.code];
    assert_eq!(codes, [done.code; 3], "{planned:?}\n{done:?}");
    Some((done.code, done.out))
}

/// The lines of a dry run, as the run words them.
fn to_past(planned: &str) -> String {
    let past = planned.lines().map(|line| match line.split_once(' ') {
        Some(("restore", rest)) => format!("restored   {}\n", rest.trim_start()),
        Some(("remove", rest)) => format!("removed    {}\n", rest.trim_start()),
        Some(("merge", rest)) => format!("merged     {}\n", rest.trim_start()),
        _ => format!("{line}\n"),
    });
    past.collect()
}

/// A report without what only a run has: its guard, and names that are drawn for each plan.
fn comparable_json(ran: &ProgramOutput) -> Option<Value> {
    let mut report: Value = serde_json::from_str(&ran.out).ok()?;
    for key in ["operation", "dry_run"] {
        report[key] = Value::Null;
    }
    for root in report["roots"].as_array_mut().into_iter().flatten() {
        root["report"]["guard"] = Value::Null;
    }
    Some(report)
}

/// A fixture after a command, with what a person did then.
fn prepared(
    before: impl Fn(&CliFixture),
    script: &str,
    after: impl Fn(&CliFixture),
) -> Option<((), CliFixture)> {
    let case = CliFixture::empty();
    before(&case);
    let ran = exec_shell(&case, script);
    assert_eq!(ran.code, 0, "{ran:?}");
    after(&case);
    Some(((), case))
}

/// Proves R15.
#[test]
fn dry_run_foresees_files_of_a_person() {
    let before = |case: &CliFixture| {
        fs_err::create_dir_all(case.path("p/gone")).expect("made");
        write_file(case, "gone/f", "f\n");
        write_file(case, "renamed", "old\n");
        write_file(case, "ok", "ok\n");
    };
    let script = "mkdir made; echo a > made/a; rm -r gone; mv renamed other; echo x > ok; \
                  printf '1\\n2\\n' > log";
    let after = |case: &CliFixture| {
        write_file(case, "made/mine", "mine\n");
        write_file(case, "gone", "a person's file\n");
        write_file(case, "renamed", "new\n");
        write_file(case, "log", "1\n2\nmine\n");
    };

    let make = || prepared(before, script, after);
    let (code, out) = undo_twice_as_predicted(make, &run_program).expect("a fixture");

    assert_eq!(code, 4);
    for line in [
        "removed    made/a\n",
        "kept       made/  (it holds other files)\n",
        "conflict   gone/f  (another file is in the way)\n",
        "conflict   renamed  (created again since)\n",
        "conflict   other  (the only copy of a file that cannot be restored)\n",
        "merged     log\n",
        "restored   ok\n",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
}

/// Proves R15.
#[test]
fn dry_run_foresees_a_busy_session() {
    let case = CliFixture::empty();
    write_file(&case, "f", "one\n");
    exec_shell(&case, "echo two > f");
    let sessions = case.run_json(&["session", "list"]);
    let session = sessions["sessions"][0]["id"].as_str();
    let session = session.expect("a session").to_owned();
    let script = "touch ../started; while [ ! -e ../go ]; do sleep 0.05; done";
    let args = ["exec", "--session", &session, "--", "sh", "-c", script];
    let mut command = start_program(&case, &args);
    await_file(&case.path("started"));

    // Plain `undo` takes the newest turn that has ended; this one asks for the running one.
    let undo = ["undo", "--session", &session];
    let runs = [&["--dry-run"][..], &[], &["--dry-run", "--json"]];
    let runs = runs.map(|more| run_program(&case, &[&undo[..], more].concat()));
    write_file(&case, "../go", "");
    assert!(command.wait().expect("ends").success());

    for ran in &runs {
        assert_eq!(ran.code, 4, "{ran:?}");
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains("is busy with a turn"), "{ran:?}");
    }
    assert_eq!(read_text(&case, "f"), "two\n");
}

/// Proves R15.
#[test]
fn dry_run_foresees_that_the_project_has_no_room() {
    let make = || {
        let disk = SmallDisk::mount(1024).expect("a directory")?;
        let case = CliFixture::empty();
        fs_err::create_dir(disk.path().join("work")).expect("made");
        fs_err::remove_dir(case.path("p/src")).expect("removed");
        fs_err::remove_dir(case.path("p")).expect("removed");
        symlink(disk.path().join("work"), case.path("p")).expect("linked");
        write_file(&case, "big", vec![b'x'; 500 << 10]);
        write_file(&case, "small", "one\n");
        exec_shell(&case, "rm big; echo two > small");
        disk.fill_leaving(100 << 10).expect("filled");
        Some((disk, case))
    };

    let Some((code, out)) = undo_twice_as_predicted(make, &run_program) else { return };

    assert_eq!(code, 4);
    assert_eq!(out, "restored   small\nconflict   big  (no space left on the disk)\n");
}

/// Proves R15: a file that is not there needs its own size, and one that is replaced needs room for both meanwhile.
#[test]
fn removed_file_comes_back_where_it_fits_once() {
    let make = || {
        let disk = SmallDisk::mount(1024).expect("a directory")?;
        let case = CliFixture::empty();
        fs_err::create_dir(disk.path().join("work")).expect("made");
        fs_err::remove_dir(case.path("p/src")).expect("removed");
        fs_err::remove_dir(case.path("p")).expect("removed");
        symlink(disk.path().join("work"), case.path("p")).expect("linked");
        write_file(&case, "big", vec![b'x'; 400 << 10]);
        write_file(&case, "changed", vec![b'y'; 100 << 10]);
        exec_shell(&case, "rm big; echo more >> changed");
        disk.fill_leaving(600 << 10).expect("filled");
        Some((disk, case))
    };

    let Some((code, out)) = undo_twice_as_predicted(make, &run_program) else { return };

    assert_eq!(code, 0);
    assert_eq!(out, "restored   big\nrestored   changed\n");
}

/// Proves R15: a disk can be full of files, too.
#[test]
fn dry_run_foresees_that_the_disk_holds_no_more_files() {
    let make = |free: usize| {
        let disk = SmallDisk::mount_for_files(40).expect("a directory")?;
        let case = CliFixture::empty();
        fs_err::create_dir(disk.path().join("work")).expect("made");
        fs_err::remove_dir(case.path("p/src")).expect("removed");
        fs_err::remove_dir(case.path("p")).expect("removed");
        symlink(disk.path().join("work"), case.path("p")).expect("linked");
        fs_err::create_dir(case.path("p/d")).expect("made");
        write_file(&case, "d/a", "a\n");
        write_file(&case, "d/b", "longer\n");
        exec_shell(&case, "rm -r d");
        let made =
            (0..).take_while(|nth| fs_err::write(disk.path().join(format!("x{nth}")), "").is_ok());
        let made = made.count();
        (0..free).for_each(|nth| {
            fs_err::remove_file(disk.path().join(format!("x{}", made - 1 - nth))).expect("removed");
        });
        Some((disk, case))
    };

    let outcome = undo_twice_as_predicted(|| make(0), &run_program);
    let Some((code, out)) = outcome else { return };
    assert!(code == 4 && !out.contains("restored"), "{code} {out}");
    let Some((code, out)) = undo_twice_as_predicted(|| make(2), &run_program) else { return };
    assert_eq!(
        (code, out.as_str()),
        (4, "restored   d/a\nconflict   d/b  (no space left on the disk)\n")
    );
    let Some((code, out)) = undo_twice_as_predicted(|| make(3), &run_program) else { return };
    assert_eq!((code, out.as_str()), (0, "restored   d/a\nrestored   d/b\n"));
}

/// A project whose data directory has this much room, and a file that must be saved before it is merged.
fn fixture_with_room(bytes: u64) -> Option<(SmallDisk, CliFixture)> {
    let disk = SmallDisk::mount(4096).expect("a directory")?;
    let case = CliFixture::empty();
    fs_err::create_dir(disk.path().join("data")).expect("made");
    symlink(disk.path().join("data"), case.data_dir()).expect("linked");
    write_file(&case, "small", "one\n");
    write_file(&case, "large", "1\n2\n3\n");
    exec_shell(&case, "echo two > small; printf '1\\nA\\n3\\n' > large");
    let mut noise = vec![0; 400 << 10];
    turnstone_testkit::fixture::SeededRng::new(7).fill(&mut noise);
    let noise: String = noise.iter().map(|byte| format!("{byte:02x}\n")).collect();
    write_file(&case, "large", format!("1\nA\n3\n{noise}"));
    disk.fill_leaving(bytes).expect("filled");
    Some((disk, case))
}

/// Proves R14, R15.
#[test]
fn dry_run_foresees_that_current_content_cannot_be_saved() {
    let make = || fixture_with_room(900 << 10);

    let Some((code, out)) = undo_twice_as_predicted(make, &run_program) else { return };

    assert_eq!(code, 4);
    let skipped = "skipped    large  (no space left to save its current content)\n";
    assert_eq!(out, format!("restored   small\n{skipped}"));
}

/// Proves R14, R15.
#[test]
fn dry_run_is_right_with_any_amount_of_room() {
    for kib in [0, 40, 90, 130, 200, 300, 400, 600, 2000] {
        let make = || fixture_with_room(kib << 10);
        let Some((code, _)) = undo_twice_as_predicted(make, &run_program) else { return };
        assert_ne!(code, 0, "{kib} KiB");
    }
}

/// Lets another user than root own a directory and everything below it.
fn give_away(directory: &Path, user: u32) {
    chown(directory, Some(user), Some(user)).expect("root may");
    for entry in fs_err::read_dir(directory).expect("listed") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => give_away(&path, user),
            false => chown(&path, Some(user), Some(user)).expect("root may"),
        }
    }
}

const UNPRIVILEGED_USER: u32 = 65534;

/// Runs the program as a user who is not root: the kernel refuses root nothing.
#[expect(clippy::disallowed_methods, reason = "only this program changes the user")]
fn run_unprivileged(case: &CliFixture, args: &[&str]) -> ProgramOutput {
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(env!("CARGO_BIN_EXE_turnstone")).args(args).env_clear();
    command.envs([("PATH", "/usr/bin:/bin"), ("TZ", "UTC"), ("USER", "ada")]);
    command.env("HOME", case.path("home")).env("TURNSTONE_DATA", case.data_dir());
    let output = command.current_dir(case.path("p")).output();
    let output = output.unwrap_or_else(|_| std::process::Output {
        status: std::os::unix::process::ExitStatusExt::from_raw(127 << 8),
        stdout: Vec::new(),
        stderr: Vec::new(),
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    ProgramOutput { code: output.status.code().unwrap_or(-1), out, err }
}

/// Proves R15.
#[test]
fn dry_run_foresees_read_only_directories_and_files_of_others() {
    let make = || {
        let case = CliFixture::empty();
        fs_err::create_dir_all(case.path("p/locked")).expect("made");
        fs_err::create_dir_all(case.path("p/owned")).expect("made");
        for name in ["locked/removed", "locked/edited", "edited", "foreign"] {
            write_file(&case, name, "one\n");
        }
        if chown(case.path(""), Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER)).is_err() {
            return None;
        }
        give_away(&case.path(""), UNPRIVILEGED_USER);
        let script = "rm locked/removed; echo two > locked/edited; echo n > locked/new; \
                      echo two > edited; echo two > foreign; chmod 700 owned";
        let ran = run_unprivileged(&case, &["exec", "--", "sh", "-c", script]);
        // Where that user may not even start the program, there is nothing to see.
        if ran.code != 0 {
            return None;
        }
        set_mode(&case, "locked", 0o555);
        chown(case.path("p/foreign"), Some(0), Some(0)).expect("root may");
        chown(case.path("p/owned"), Some(0), Some(0)).expect("root may");
        assert_eq!(mode_of(&case, "owned"), 0o700);
        Some(((), case))
    };

    let Some((code, out)) = undo_twice_as_predicted(make, &run_unprivileged) else { return };

    assert_eq!(code, 4);
    let conflicts = ["foreign", "locked/edited", "locked/new", "locked/removed", "owned"];
    let conflicts =
        conflicts.map(|name| format!("conflict   {name}  (read-only: permission denied)\n"));
    assert_eq!(out, format!("restored   edited\n{}", conflicts.concat()));
}

/// Proves R1.
#[test]
fn unreadable_file_is_named_and_left() {
    let case = CliFixture::empty();
    write_file(&case, "secret", "one\n");
    if chown(case.path(""), Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER)).is_err() {
        return;
    }
    give_away(&case.path(""), UNPRIVILEGED_USER);
    let script = "chmod 000 secret; echo n > new";
    // Where that user may not even start the program, there is nothing to see.
    if run_unprivileged(&case, &["exec", "--", "sh", "-c", script]).code != 0 {
        return;
    }

    let ran = run_unprivileged(&case, &["undo"]);

    assert_eq!(
        (ran.code, ran.out.as_str()),
        (4, "removed    new\nskipped    secret  (unreadable)\n")
    );
    assert_eq!(mode_of(&case, "secret"), 0);
}

/// The hint names the command that undoes the rest once the obstacle is gone: an undo without arguments would be
/// about another turn.
#[test]
fn hint_of_an_obstacle_names_the_turn() {
    for hint in ["move the symbolic link away", "move what is in its place"] {
        let case = CliFixture::empty();
        let (dir, aside) = (case.path("p/d"), case.path("aside"));
        fs_err::create_dir(&dir).expect("made");
        write_file(&case, "d/f", "one\n");
        exec_shell(&case, "echo older > older");
        exec_shell(&case, "rm d/f; echo n > new");
        fs_err::rename(&dir, &aside).expect("moved");
        match hint.contains("link") {
            true => symlink("..", &dir).expect("linked"),
            false => write_file(&case, "d", "mine\n"),
        }

        let ran = run_program(&case, &["undo"]);
        assert_eq!(ran.code, 4, "{ran:?}");
        let line = ran.err.lines().find(|line| line.contains(hint));
        let line = line.unwrap_or_else(|| panic!("no hint: {ran:?}"));
        let args: Vec<&str> =
            line.split('`').nth(1).expect("a command").split(' ').skip(1).collect();
        assert_eq!((args.len(), args[0]), (2, "undo"), "{line}");

        fs_err::remove_file(&dir).expect("removed");
        fs_err::rename(&aside, &dir).expect("moved back");
        assert_eq!(run_program(&case, &args).code, 0);
        assert_eq!(read_text(&case, "d/f"), "one\n");
        assert!(case.path("p/older").exists());
    }
}

/// Proves R1: what nobody could read before or after is known to have changed from the trace alone.
#[test]
fn unreadable_paths_that_a_traced_command_changed_are_named() {
    let case = CliFixture::empty();
    for name in ["closed", "gone", "from", "theirs", "untouched"] {
        write_file(&case, name, "one\n");
    }
    fs_err::create_dir(case.path("p/dir")).expect("made");
    write_file(&case, "dir/in", "one\n");
    if chown(case.path(""), Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER)).is_err() {
        return;
    }
    give_away(&case.path(""), UNPRIVILEGED_USER);
    chown(case.path("p/theirs"), Some(0), Some(0)).expect("given");
    for name in ["closed", "gone", "from", "theirs", "untouched", "dir"] {
        let none = std::os::unix::fs::PermissionsExt::from_mode(0o0);
        fs_err::set_permissions(case.path("p").join(name), none).expect("closed");
    }
    let script = "chmod 600 closed; echo two > closed; chmod 000 closed; rm -f gone theirs; mv from to; \
                  chmod 700 dir; echo two > dir/in; chmod 000 dir";
    if run_unprivileged(&case, &["exec", "--", "sh", "-c", script]).code != 0 {
        return;
    }
    let skipped = |name: &str| format!("skipped    {name}  (unreadable)\n");
    let expected: String = ["closed", "dir", "from", "gone", "theirs", "to"].map(skipped).concat();
    for args in [&["undo", "--dry-run"][..], &["undo"]] {
        let ran = run_unprivileged(&case, args);
        assert_eq!((ran.code, ran.out.as_str()), (4, expected.as_str()), "{ran:?}");
    }
}

/// Proves R18.
#[test]
fn directories_that_the_turn_made_read_only_are_no_obstacle() {
    let make = || {
        let case = CliFixture::empty();
        fs_err::create_dir_all(case.path("p/kept")).expect("made");
        for name in ["kept/old", "swapped"] {
            write_file(&case, name, "one\n");
        }
        if chown(case.path(""), Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER)).is_err() {
            return None;
        }
        give_away(&case.path(""), UNPRIVILEGED_USER);
        let script = "mkdir -p made/deep; echo x > made/deep/f; chmod 555 made/deep made; \
                      rm kept/old; chmod 500 kept; \
                      rm swapped; mkdir swapped; echo y > swapped/g; chmod 555 swapped";
        let ran = run_unprivileged(&case, &["exec", "--", "sh", "-c", script]);
        // Where that user may not even start the program, there is nothing to see.
        (ran.code == 0).then_some(((), case))
    };
    let Some((code, out)) = undo_twice_as_predicted(make, &run_unprivileged) else { return };
    assert_eq!(code, 0, "{out}");

    let ((), case) = make().expect("it worked before");
    assert_eq!(run_unprivileged(&case, &["undo"]).code, 0);
    assert!(!case.path("p/made").exists());
    assert_eq!((mode_of(&case, "kept"), mode_of(&case, "swapped")), (0o755, 0o644));
    assert_eq!(run_unprivileged(&case, &["redo"]).code, 0);
    let modes = ["made", "made/deep", "kept", "swapped"].map(|name| mode_of(&case, name));
    assert_eq!(modes, [0o555, 0o555, 0o500, 0o555]);

    // A directory that stays, because of a person's file in it, keeps its bits.
    set_mode(&case, "made", 0o755);
    write_file(&case, "made/person", "p\n");
    set_mode(&case, "made", 0o555);
    give_away(&case.path("p"), UNPRIVILEGED_USER);
    let ran = run_unprivileged(&case, &["undo"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(mode_of(&case, "made"), 0o555);
    assert!(case.path("p/made/person").exists());
}

/// Proves R5.
#[test]
fn git_directory_that_the_turn_removed_is_named() {
    let make = |script: &'static str| {
        move || {
            let before = |case: &CliFixture| {
                write_file(case, "f", "one\n");
                let ran = exec_shell(case, "git init -q . && git add f");
                assert_eq!(ran.code, 0, "{ran:?}");
            };
            prepared(before, script, |_| {})
        }
    };

    let alone = undo_twice_as_predicted(make("rm -rf .git"), &run_program).expect("a fixture");
    let line = "skipped    ~/p/.git  (removed by the turn; it is never captured)\n";
    assert_eq!(alone, (4, line.to_owned()));

    let both = make("rm -rf .git; echo two > f");
    let (code, out) = undo_twice_as_predicted(both, &run_program).expect("a fixture");
    assert_eq!((code, out), (4, format!("restored   f\n{line}")));

    let (_, case) = make("echo two > f; rm -rf .git; git init -q .")().expect("a fixture");
    assert_eq!(run_program(&case, &["undo"]).code, 0, "there is one again");
}
