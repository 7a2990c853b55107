//! `turnstone undo` and permission bits: the turn's own are restored, a person's stay.

use std::os::unix::fs::PermissionsExt;

use crate::exec::{exec_shell, run_program};
use crate::fixture::{CliFixture, read_file};

pub(crate) fn write_file(case: &CliFixture, name: &str, text: impl AsRef<[u8]>) {
    fs_err::write(case.path("p").join(name), text).expect("written");
}

pub(crate) fn read_text(case: &CliFixture, name: &str) -> String {
    read_file(&case.path("p").join(name))
}

pub(crate) fn set_mode(case: &CliFixture, name: &str, mode: u32) {
    let path = case.path("p").join(name);
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
}

pub(crate) fn mode_of(case: &CliFixture, name: &str) -> u32 {
    let data = fs_err::symlink_metadata(case.path("p").join(name)).expect("it exists");
    data.permissions().mode() & 0o7777
}

const TWENTY_LINES: &str =
    "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n";

/// Proves R18.
#[test]
fn chmod_of_a_person_survives_undo_and_redo() {
    let case = CliFixture::empty();
    write_file(&case, "f", TWENTY_LINES);
    set_mode(&case, "f", 0o644);
    exec_shell(&case, "sed -i 's/^3$/A/' f");
    set_mode(&case, "f", 0o600);

    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert_eq!((read_text(&case, "f").as_str(), mode_of(&case, "f")), (TWENTY_LINES, 0o600));

    assert_eq!(run_program(&case, &["redo"]).code, 0);
    assert_eq!(mode_of(&case, "f"), 0o600);
    assert!(read_text(&case, "f").contains("\nA\n"));
}

/// Proves R18.
#[test]
fn chmod_of_a_turn_is_undone_exactly() {
    let case = CliFixture::empty();
    for (name, mode) in [("run", 0o644), ("closed", 0o664), ("none", 0o640), ("both", 0o644)] {
        write_file(&case, name, "text\n");
        set_mode(&case, name, mode);
    }
    exec_shell(&case, "chmod 755 run; chmod 600 closed; chmod 000 none; chmod 755 both");
    // Content and bits have nothing to do with each other.
    write_file(&case, "run", "\0 a person's bytes");
    set_mode(&case, "both", 0o700);

    assert_eq!(run_program(&case, &["undo"]).code, 0);
    let modes = ["run", "closed", "none", "both"].map(|name| mode_of(&case, name));
    assert_eq!(modes, [0o644, 0o664, 0o640, 0o600]);
    assert_eq!(read_text(&case, "run"), "\0 a person's bytes");

    assert_eq!(run_program(&case, &["redo"]).code, 0);
    let modes = ["run", "closed", "none", "both"].map(|name| mode_of(&case, name));
    assert_eq!(modes, [0o755, 0o600, 0o000, 0o700]);
}

/// Proves R18.
#[test]
fn created_file_that_was_only_chmodded_since_is_not_removed() {
    let case = CliFixture::empty();
    exec_shell(&case, "umask 022; echo hi > new; echo x > other");
    set_mode(&case, "new", 0o600);

    let planned = run_program(&case, &["undo", "--dry-run"]);
    let ran = run_program(&case, &["undo"]);

    assert_eq!((planned.code, ran.code), (4, 4), "{ran:?}");
    let conflict = "conflict   new  (its permissions have changed since)\n";
    assert!(planned.out.ends_with(conflict) && ran.out.ends_with(conflict), "{}", ran.out);
    assert_eq!((read_text(&case, "new").as_str(), mode_of(&case, "new")), ("hi\n", 0o600));
    assert!(!case.path("p/other").exists());
}
