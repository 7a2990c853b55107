//! Undo and redo of files with several names.

use std::os::unix::fs::MetadataExt;

use crate::exec::{exec_shell, exec_untraced, run_program};
use crate::fixture::{CliFixture, ProgramOutput, read_file};

/// Names of the many files of a turn: what is written at the same time shows what order it depends on.
const MANY: std::ops::Range<usize> = 0..20;

fn write(case: &CliFixture, name: &str, text: &str) {
    fs_err::write(case.path("p").join(name), text).expect("written");
}

fn read(case: &CliFixture, name: &str) -> String {
    read_file(&case.path("p").join(name))
}

fn link(case: &CliFixture, from: &str, to: &str) {
    fs_err::hard_link(case.path("p").join(from), case.path("p").join(to)).expect("linked");
}

fn inode(case: &CliFixture, name: &str) -> u64 {
    fs_err::metadata(case.path("p").join(name)).expect("a file").ino()
}

fn assert_ok(ran: &ProgramOutput) {
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// Both ways in which changes become known.
const WAYS: [fn(&CliFixture, &str) -> ProgramOutput; 2] = [exec_shell, exec_untraced];

/// Proves R18.
#[test]
fn file_that_a_turn_linked_and_changed_is_undone_and_redone() {
    for exec in WAYS {
        let case = CliFixture::empty();
        for nth in MANY {
            write(&case, &format!("f{nth}"), "old\n");
        }
        let script = "for f in f*; do ln $f a.$f; ln $f z.$f; echo new > $f; done";
        assert_ok(&exec(&case, script));

        assert_ok(&run_program(&case, &["undo"]));
        for nth in MANY {
            assert_eq!(read(&case, &format!("f{nth}")), "old\n");
            for other in ["a", "z"] {
                assert!(!case.path(&format!("p/{other}.f{nth}")).exists());
            }
        }
        assert_ok(&run_program(&case, &["redo"]));
        for (nth, name) in MANY.flat_map(|nth| ["", "a.", "z."].map(|name| (nth, name))) {
            assert_eq!(read(&case, &format!("{name}f{nth}")), "new\n");
        }
    }
}

/// Proves R18: both names keep being one file.
#[test]
fn file_written_by_one_of_its_names_is_undone_and_redone_under_all() {
    for exec in WAYS {
        let case = CliFixture::empty();
        for nth in MANY {
            write(&case, &format!("f{nth}"), "old\n");
            link(&case, &format!("f{nth}"), &format!("g{nth}"));
        }
        let script = "for f in f*; do echo new > $f; chmod 600 $f; done";
        assert_ok(&exec(&case, script));
        for (command, text, mode) in [("undo", "old\n", 0o644), ("redo", "new\n", 0o600)] {
            assert_ok(&run_program(&case, &[command]));
            for nth in MANY {
                let (f, g) = (format!("f{nth}"), format!("g{nth}"));
                assert_eq!((read(&case, &f).as_str(), read(&case, &g).as_str()), (text, text));
                assert_eq!(inode(&case, &f), inode(&case, &g), "{command}");
                let bits = fs_err::metadata(case.path("p").join(&f)).expect("a file").mode();
                assert_eq!(bits & 0o777, mode, "{command}");
            }
        }
    }
}

/// Files that the turn made one become two again.
#[test]
fn files_that_a_turn_made_one_are_separate_after_the_undo() {
    for exec in WAYS {
        let case = CliFixture::empty();
        for nth in MANY {
            write(&case, &format!("f{nth}"), "one\n");
            write(&case, &format!("g{nth}"), "two\n");
        }
        let script = "for n in $(seq 0 19); do echo three > f$n; ln -f f$n g$n; done";
        assert_ok(&exec(&case, script));
        assert_ok(&run_program(&case, &["undo"]));
        for nth in MANY {
            assert_eq!(read(&case, &format!("f{nth}")), "one\n");
            assert_eq!(read(&case, &format!("g{nth}")), "two\n");
        }
        assert_ok(&run_program(&case, &["redo"]));
        for nth in MANY {
            assert_eq!(read(&case, &format!("f{nth}")), "three\n");
            assert_eq!(read(&case, &format!("g{nth}")), "three\n");
        }
    }
}

#[test]
fn removed_name_of_a_file_comes_back_with_its_content() {
    for exec in WAYS {
        let case = CliFixture::empty();
        write(&case, "f", "old\n");
        link(&case, "f", "g");
        assert_ok(&exec(&case, "rm g; echo new > f"));
        assert_ok(&run_program(&case, &["undo"]));
        assert_eq!((read(&case, "f").as_str(), read(&case, "g").as_str()), ("old\n", "old\n"));
        assert_ok(&run_program(&case, &["redo"]));
        assert_eq!(read(&case, "f"), "new\n");
        assert!(!case.path("p/g").exists());
    }
}

/// The file outside is the same file: it changes with the undo as it changed with the turn, and that is said.
#[test]
fn undo_names_files_that_have_names_elsewhere() {
    for exec in WAYS {
        let case = CliFixture::empty();
        write(&case, "f", "old\n");
        link(&case, "f", "../elsewhere");
        assert_ok(&exec(&case, "echo new > f"));
        let foreseen = run_program(&case, &["undo", "--dry-run"]);
        let ran = run_program(&case, &["undo"]);
        assert_ok(&ran);
        assert_eq!(
            (read(&case, "f").as_str(), read(&case, "../elsewhere").as_str()),
            ("old\n", "old\n")
        );
        let note = "note: f has other names (hard links), which change with it";
        assert!(ran.err.contains(note), "{ran:?}");
        assert!(foreseen.err.contains(note), "{foreseen:?}");
    }
}

/// A filter keeps what it excludes: the name that is undone becomes a file of its own.
#[test]
fn filtered_undo_of_one_name_leaves_the_other_one() {
    let case = CliFixture::empty();
    write(&case, "f", "old\n");
    link(&case, "f", "g");
    assert_ok(&exec_shell(&case, "echo new > f"));
    assert_ok(&run_program(&case, &["undo", "--path", "f"]));
    assert_eq!((read(&case, "f").as_str(), read(&case, "g").as_str()), ("old\n", "new\n"));
    assert_ok(&run_program(&case, &["undo"]));
    assert_eq!((read(&case, "f").as_str(), read(&case, "g").as_str()), ("old\n", "old\n"));
}
