//! `turnstone undo` and directories: created, removed and changed ones, and what takes their place.

use std::os::unix::fs::symlink;

use crate::exec::{exec_shell, run_program};
use crate::fixture::{CliFixture, ProgramOutput};
use crate::undo_modes::{mode_of, read_text, set_mode, write_file};

fn make_dir(case: &CliFixture, name: &str, mode: u32) {
    fs_err::create_dir_all(case.path("p").join(name)).expect("made");
    set_mode(case, name, mode);
}

fn exists(case: &CliFixture, name: &str) -> bool {
    fs_err::symlink_metadata(case.path("p").join(name)).is_ok()
}

/// Runs an undo after a dry run, which must have said the same.
fn undo_as_predicted(case: &CliFixture) -> ProgramOutput {
    let planned = run_program(case, &["undo", "--dry-run"]);
    let done = run_program(case, &["undo"]);
    assert_eq!(planned.code, done.code, "{planned:?}\n{done:?}");
    let past = planned.out.lines().map(|line| match line.split_once(' ') {
        Some((verb @ ("restore" | "remove" | "merge"), rest)) => {
            let past = if verb == "restore" { "restored" } else { verb };
            let past = if verb.ends_with('e') && past == verb {
                format!("{verb}d")
            } else {
                past.to_owned()
            };
            format!("{past:<9}  {}", rest.trim_start())
        }
        _ => line.to_owned(),
    });
    assert_eq!(past.collect::<Vec<_>>(), done.out.lines().collect::<Vec<_>>());
    done
}

/// Proves R18.
#[test]
fn directory_comes_back_with_its_permissions() {
    let case = CliFixture::empty();
    make_dir(&case, "secret", 0o700);
    make_dir(&case, "secret/open", 0o755);
    make_dir(&case, "secret/locked", 0o555);
    write_file(&case, "secret/key", "k\n");
    write_file(&case, "secret/open/f", "f\n");
    exec_shell(&case, "rm -rf secret");

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 0, "{ran:?}");
    let modes = ["secret", "secret/open", "secret/locked"].map(|name| mode_of(&case, name));
    assert_eq!(modes, [0o700, 0o755, 0o555]);
    assert_eq!(read_text(&case, "secret/key"), "k\n");
    assert_eq!(run_program(&case, &["redo"]).code, 0);
    assert!(!exists(&case, "secret"));
}

/// Proves R18.
#[test]
fn file_restored_alone_brings_its_directories_with_their_permissions() {
    let case = CliFixture::empty();
    make_dir(&case, "secret", 0o700);
    make_dir(&case, "secret/deep", 0o750);
    write_file(&case, "secret/deep/key", "k\n");
    write_file(&case, "secret/other", "o\n");
    exec_shell(&case, "rm -r secret");

    let ran = run_program(&case, &["undo", "--path", "secret/deep/key"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(["secret", "secret/deep"].map(|name| mode_of(&case, name)), [0o700, 0o750]);
    assert!(!exists(&case, "secret/other"));

    // The turn did not remove this directory, so its changes do not tell the permissions.
    make_dir(&case, "hidden", 0o700);
    write_file(&case, "hidden/f", "f\n");
    exec_shell(&case, "rm hidden/f");
    fs_err::remove_dir(case.path("p/hidden")).expect("removed");
    let ran = run_program(&case, &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!((mode_of(&case, "hidden"), read_text(&case, "hidden/f")), (0o700, "f\n".into()));
}

/// Proves R18.
#[test]
fn permissions_of_directories_are_merged_bit_by_bit() {
    let case = CliFixture::empty();
    for (name, mode) in [("turn", 0o755), ("person", 0o755), ("both", 0o755)] {
        make_dir(&case, name, mode);
        write_file(&case, &format!("{name}/f"), "f\n");
    }
    exec_shell(&case, "chmod 700 turn; echo g > person/f; chmod 775 both");
    set_mode(&case, "person", 0o750);
    set_mode(&case, "both", 0o770);

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("restored   turn/  (permissions)\n"), "{}", ran.out);
    let modes = ["turn", "person", "both"].map(|name| mode_of(&case, name));
    assert_eq!(modes, [0o755, 0o750, 0o750]);
    assert_eq!(run_program(&case, &["redo"]).code, 0);
    let modes = ["turn", "person", "both"].map(|name| mode_of(&case, name));
    assert_eq!(modes, [0o700, 0o750, 0o770]);
}

/// Proves R1.
#[test]
fn only_directories_that_the_turn_created_are_removed() {
    let case = CliFixture::empty();
    make_dir(&case, "mine", 0o755);
    make_dir(&case, "mine/deeper", 0o711);
    exec_shell(
        &case,
        "echo x > mine/f; echo y > mine/deeper/g; mkdir -p made/in bare; echo z > made/in/h",
    );

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("removed    bare/\n") && !ran.out.contains("made/in/\n"),
        "{}",
        ran.out
    );
    assert!(exists(&case, "mine") && mode_of(&case, "mine/deeper") == 0o711);
    assert!(!exists(&case, "made") && !exists(&case, "bare") && !exists(&case, "mine/f"));
    assert_eq!(run_program(&case, &["redo"]).code, 0);
    assert!(exists(&case, "bare") && read_text(&case, "made/in/h") == "z\n");
}

/// Proves R4.
#[test]
fn file_directory_and_link_that_changed_places_are_undone_and_redone() {
    let case = CliFixture::empty();
    write_file(&case, "f", "file\n");
    make_dir(&case, "d", 0o750);
    make_dir(&case, "d/empty", 0o700);
    write_file(&case, "d/x", "x\n");
    symlink("f", case.path("p/l")).expect("linked");
    exec_shell(&case, "rm f; mkdir f; rm -r d; echo d > d; rm l; mkdir -p l/sub; echo y > l/sub/y");

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        (read_text(&case, "f").as_str(), read_text(&case, "d/x").as_str()),
        ("file\n", "x\n")
    );
    assert_eq!((mode_of(&case, "d"), mode_of(&case, "d/empty")), (0o750, 0o700));
    assert_eq!(fs_err::read_link(case.path("p/l")).expect("a link").to_str(), Some("f"));

    assert_eq!(run_program(&case, &["redo"]).code, 0);
    assert!(
        case.path("p/f").is_dir() && fs_err::read_dir(case.path("p/f")).unwrap().next().is_none()
    );
    assert_eq!(
        (read_text(&case, "d").as_str(), read_text(&case, "l/sub/y").as_str()),
        ("d\n", "y\n")
    );
}

/// Proves R15.
#[test]
fn directory_with_a_file_of_a_person_stays_and_is_named() {
    let case = CliFixture::empty();
    write_file(&case, "f", "file\n");
    exec_shell(&case, "mkdir d; echo a > d/a; rm f; mkdir f; echo b > f/b");
    write_file(&case, "d/mine", "mine\n");
    write_file(&case, "f/mine", "mine\n");

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("kept       d/  (it holds other files)\n"), "{}", ran.out);
    assert!(ran.out.contains("conflict   f  (another file is in the way)\n"), "{}", ran.out);
    assert!(!exists(&case, "d/a") && exists(&case, "d/mine"));
    assert!(exists(&case, "f/b") && exists(&case, "f/mine"), "no half of it");
}

/// Proves R15.
#[test]
fn renamed_file_is_kept_while_its_old_place_is_taken() {
    let case = CliFixture::empty();
    write_file(&case, "p.txt", "the old text\n");
    exec_shell(&case, "mv p.txt q.txt");
    write_file(&case, "p.txt", "a new one\n");

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(
        ran.out,
        "conflict   p.txt  (created again since)\n\
         conflict   q.txt  (the only copy of a file that cannot be restored)\n"
    );
    assert_eq!(read_text(&case, "q.txt"), "the old text\n");
    fs_err::remove_file(case.path("p/p.txt")).expect("removed");
    assert_eq!(run_program(&case, &["undo"]).code, 0, "and then it goes");
    assert!(read_text(&case, "p.txt") == "the old text\n" && !exists(&case, "q.txt"));
}

/// Proves R4.
#[test]
fn lines_added_to_a_created_file_stay() {
    let case = CliFixture::empty();
    exec_shell(
        &case,
        "printf 'one\\ntwo\\n' > added; printf 'one\\ntwo\\n' > edited; printf '' > empty",
    );
    write_file(&case, "added", "one\ntwo\nmine\n");
    write_file(&case, "edited", "one\n2\n");
    write_file(&case, "empty", "mine\n");

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("merged     added"), "{}", ran.out);
    assert!(
        ran.out.contains("conflict   edited  (created by the turn and changed since)\n"),
        "{}",
        ran.out
    );
    let texts = ["added", "edited", "empty"].map(|name| read_text(&case, name));
    assert_eq!(texts, ["mine\n", "one\n2\n", "mine\n"]);
}

/// Proves R15.
#[test]
fn parent_that_became_a_file_is_foreseen() {
    let case = CliFixture::empty();
    make_dir(&case, "d", 0o755);
    write_file(&case, "d/f", "f\n");
    write_file(&case, "g", "g\n");
    exec_shell(&case, "rm -r d; rm g");
    write_file(&case, "d", "a person's file\n");

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("conflict   d/f  (another file is in the way)\n"), "{}", ran.out);
    assert_eq!(
        (read_text(&case, "d").as_str(), read_text(&case, "g").as_str()),
        ("a person's file\n", "g\n")
    );
}

/// Proves R15.
#[test]
fn empty_directory_in_the_place_of_a_file_is_foreseen() {
    let case = CliFixture::empty();
    write_file(&case, "f", "one\n");
    exec_shell(&case, "rm f; mkdir f");
    make_dir(&case, "f/mine", 0o755);

    let ran = undo_as_predicted(&case);

    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.out.contains("conflict   f  (another file is in the way)\n"), "{ran:?}");
    assert!(exists(&case, "f/mine"));
}

/// Proves R15.
#[test]
fn immutable_files_and_directories_are_foreseen() {
    locked_files_and_directories_are_foreseen("i");
}

/// Nothing is left in a directory from which nothing can be removed.
///
/// Proves R15.
#[test]
fn append_only_files_and_directories_are_foreseen() {
    locked_files_and_directories_are_foreseen("a");
}

#[expect(clippy::disallowed_methods, reason = "only this program sets these attributes")]
fn locked_files_and_directories_are_foreseen(attribute: &str) {
    let case = CliFixture::empty();
    make_dir(&case, "d", 0o755);
    write_file(&case, "d/f", "f\n");
    write_file(&case, "g", "g\n");
    exec_shell(&case, "rm d/f; echo h > g; echo n > new");
    let chattr = |sign: char| {
        let paths = ["d", "new"].map(|name| case.path("p").join(name));
        let flag = format!("{sign}{attribute}");
        let ran = std::process::Command::new("chattr").arg(flag).args(paths).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    // Neither every file system nor every user can do that.
    if !chattr('+') {
        return;
    }
    let planned = run_program(&case, &["undo", "--dry-run"]);
    let ran = run_program(&case, &["undo"]);
    let left = fs_err::read_dir(case.path("p/d")).expect("listed").count();
    assert!(chattr('-'));

    assert_eq!((planned.code, ran.code, left), (4, 4, 0), "{planned:?}\n{ran:?}");
    for line in
        ["d/f", "new"].map(|name| format!("conflict   {name}  (immutable or append-only)\n"))
    {
        assert!(
            planned.out.contains(&line) && ran.out.contains(&line),
            "{}\n{}",
            planned.out,
            ran.out
        );
    }
    assert_eq!(read_text(&case, "g"), "g\n");
    assert_eq!(run_program(&case, &["undo"]).code, 0, "the rest, once it can be changed");
    assert!(read_text(&case, "d/f") == "f\n" && !exists(&case, "new"));
}

/// Proves R18.
#[test]
fn directory_that_a_person_made_is_not_replaced() {
    let case = CliFixture::empty();
    write_file(&case, "d", "text\n");
    exec_shell(&case, "rm d");
    make_dir(&case, "d", 0o700);

    let ran = undo_as_predicted(&case);

    assert_eq!((ran.code, mode_of(&case, "d")), (4, 0o700), "{ran:?}");
    assert!(ran.out.contains("conflict   d  ("), "{ran:?}");
}

/// Proves R19.
#[test]
fn hint_of_a_conflict_does_not_remove_the_only_copy() {
    let case = CliFixture::empty();
    write_file(&case, "p", "old\n");
    exec_shell(&case, "mv p q");
    write_file(&case, "p", "new\n");

    let ran = run_program(&case, &["undo"]);

    assert_eq!((ran.code, read_text(&case, "q")), (4, "old\n".to_owned()), "{ran:?}");
    assert!(!ran.err.contains("restore") || !ran.err.contains(" q`"), "{}", ran.err);
    assert!(
        ran.err.contains("q was not changed; move the file in the place of the original"),
        "{}",
        ran.err
    );
}
