//! Undo writes only below the directory that a turn changed, wherever that directory is now.

use serde_json::Value;
use turnstone_testkit::small_disk::SmallDisk;

use crate::exec::run_program_in;
use crate::fixture::{CliFixture, ProgramOutput, read_file};
use crate::moved_projects::{
    Versioning, copy_directory, exec_in, fixture_with_turn, json_in, move_directory, project_ids,
    session_count,
};

/// A directory whose file `f` one turn changed from `one` to `two`.
fn add_project(case: &CliFixture, place: &str) {
    fs_err::create_dir_all(case.path(place)).expect("created");
    fs_err::write(case.path(place).join("f"), "one\n").expect("written");
    exec_in(case, place, "echo two > f");
}

fn session_id(case: &CliFixture, place: &str) -> String {
    let listed = json_in(case, place, &["session", "list", "--json"]);
    listed["sessions"][0]["id"].as_str().expect("an id").to_owned()
}

fn assert_refused(ran: &ProgramOutput, reason: &str) {
    assert!(matches!(ran.code, 1 | 4), "{ran:?}");
    assert!(ran.err.contains(reason) && ran.err.contains("project relink"), "{}", ran.err);
}

/// Proves R12 and R31.
#[test]
fn undo_writes_no_project_that_took_the_path() {
    let case = CliFixture::empty();
    add_project(&case, "p");
    add_project(&case, "new");
    move_directory(&case, "p", "bak");
    move_directory(&case, "new", "p");
    assert_eq!(run_program_in(&case, "p", &["log"]).code, 0);

    let planned = json_in(&case, "bak", &["undo", "--dry-run", "--json"]);
    let ran = run_program_in(&case, "bak", &["undo"]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(planned["roots"][0]["root"]["path"], "~/bak", "{planned}");
    assert_eq!(read_file(&case.path("bak/f")), "one\n");
    assert_eq!(read_file(&case.path("p/f")), "two\n");
    let ran = run_program_in(&case, "p", &["undo"]);
    assert_eq!((ran.code, read_file(&case.path("p/f")).as_str()), (0, "one\n"), "{ran:?}");
}

/// Proves R12 and R31.
#[test]
fn undo_after_two_directories_changed_places_acts_on_its_own() {
    let case = CliFixture::empty();
    add_project(&case, "p");
    fs_err::create_dir(case.path("o")).expect("created");
    exec_in(&case, "o", "echo new > created; echo two > f");
    move_directory(&case, "p", "t");
    move_directory(&case, "o", "p");
    move_directory(&case, "t", "o");

    let ran = run_program_in(&case, "p", &["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!case.path("p/created").exists() && !case.path("p/f").exists());
    assert_eq!(read_file(&case.path("o/f")), "two\n");

    fs_err::write(case.path("o/f"), "three\n").expect("written");
    let ran = run_program_in(&case, "o", &["undo"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let mut hints = ran.err.lines().filter(|line| line.starts_with("hint:"));
    assert!(hints.all(|hint| !hint.contains("~/p") && !hint.contains("..")), "{ran:?}");
    fs_err::write(case.path("o/f"), "two\n").expect("written");
    let ran = run_program_in(&case, "o", &["undo"]);
    assert_eq!((ran.code, read_file(&case.path("o/f")).as_str()), (0, "one\n"), "{ran:?}");
}

/// Proves R12 and R45.
#[test]
fn turn_that_moves_its_own_directory_is_undone_there() {
    for is_path_taken in [false, true] {
        let case = CliFixture::empty();
        fs_err::write(case.path("p/f"), "one\n").expect("written");
        exec_in(&case, "p", "echo two > f; mv ../p ../p2");
        if is_path_taken {
            fs_err::create_dir(case.path("p")).expect("created");
            fs_err::write(case.path("p/f"), "two\n").expect("written");
            // Recovery must not record the new directory as what the turn left.
            assert_eq!(run_program_in(&case, "q", &["status"]).code, 0);
            assert_eq!(run_program_in(&case, "p", &["undo"]).code, 1);
        }

        let ran = run_program_in(&case, "p2", &["undo"]);

        assert_eq!(ran.code, 0, "{is_path_taken}: {ran:?}");
        assert_eq!(read_file(&case.path("p2/f")), "one\n", "{is_path_taken}");
        if is_path_taken {
            assert_eq!(read_file(&case.path("p/f")), "two\n");
        }
    }
}

/// Proves R12: a session is named, and its directory has gone somewhere unknown.
#[test]
fn undo_of_a_session_refuses_a_directory_that_replaced_its_own() {
    let case = CliFixture::empty();
    add_project(&case, "p");
    let (session, project) = (session_id(&case, "p"), project_ids(&case).remove(0));
    move_directory(&case, "p", "bak");
    fs_err::create_dir(case.path("p")).expect("created");
    fs_err::write(case.path("p/f"), "two\n").expect("written");

    for command in
        [&["undo", "--session", &session][..], &["undo", "--dry-run", "--session", &session]]
    {
        assert_refused(&run_program_in(&case, "p", command), "is not the directory");
        assert_eq!(read_file(&case.path("p/f")), "two\n", "{command:?}");
    }

    // A person says that it is the same project.
    let ran = run_program_in(&case, "p", &["project", "relink", &project]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = run_program_in(&case, "p", &["undo"]);
    assert_eq!((ran.code, read_file(&case.path("p/f")).as_str()), (0, "one\n"), "{ran:?}");
    assert_eq!(read_file(&case.path("bak/f")), "two\n");
}

/// Proves R31.
#[test]
fn new_directory_at_the_path_of_a_moved_one_is_a_new_project() {
    let case = CliFixture::empty();
    add_project(&case, "p");
    let old = session_id(&case, "p");
    move_directory(&case, "p", "bak");
    fs_err::create_dir(case.path("p")).expect("created");
    fs_err::write(case.path("p/f"), "two\n").expect("written");
    assert_eq!(session_count(&case, "p"), 0);

    exec_in(&case, "p", "true");

    assert_eq!((session_count(&case, "p"), project_ids(&case).len()), (1, 2));
    assert_ne!(session_id(&case, "p"), old);
    let ran = run_program_in(&case, "p", &["undo", "--session", &old]);
    assert_refused(&ran, "is not the directory");
    assert_eq!(read_file(&case.path("p/f")), "two\n");
    assert_eq!(session_id(&case, "bak"), old);
    let ran = run_program_in(&case, "bak", &["undo"]);
    assert_eq!((ran.code, read_file(&case.path("bak/f")).as_str()), (0, "one\n"), "{ran:?}");
    assert_eq!(read_file(&case.path("p/f")), "two\n");
    assert_eq!(session_count(&case, "p"), 1);
}

/// Proves R31: one of the two was deleted, the other took its path.
#[test]
fn directory_that_replaces_a_deleted_project_keeps_its_own() {
    let case = CliFixture::empty();
    add_project(&case, "p");
    add_project(&case, "o");
    let session = session_id(&case, "p");
    fs_err::remove_dir_all(case.path("o")).expect("removed");
    move_directory(&case, "p", "o");

    let ran = run_program_in(&case, "o", &["undo"]);

    assert_eq!((ran.code, read_file(&case.path("o/f")).as_str()), (0, "one\n"), "{ran:?}");
    assert_eq!(session_id(&case, "o"), session);
    let listed = json_in(&case, "q", &["project", "list", "--json"]);
    let mut existing = listed.as_array().expect("a list").iter().filter(|it| it["exists"] == true);
    let is_own = |it: &Value| it["project"]["worktree"] == "~/o";
    assert!(existing.next().is_some_and(is_own) && existing.next().is_none(), "{listed}");
}

/// Proves R31: the copy is another directory, and it has the path.
#[test]
fn copy_put_at_the_old_path_is_named_and_not_changed() {
    let case = CliFixture::empty();
    add_project(&case, "p");
    copy_directory(&case, "p", "copy");
    fs_err::remove_dir_all(case.path("p")).expect("removed");
    move_directory(&case, "copy", "p");
    let id = project_ids(&case).remove(0);

    let ran = run_program_in(&case, "p", &["undo"]);

    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains(&format!("`turnstone project relink {id}`")), "{}", ran.err);
    assert_eq!(read_file(&case.path("p/f")), "two\n");
    assert_eq!(run_program_in(&case, "p", &["project", "relink", &id]).code, 0);
    let ran = run_program_in(&case, "p", &["undo"]);
    assert_eq!((ran.code, read_file(&case.path("p/f")).as_str()), (0, "one\n"), "{ran:?}");
}

/// Proves R31: on another file system a repository is recognised by its root commit and origin, and a plain
/// directory by nothing.
#[test]
fn project_moved_to_another_file_system_can_be_undone() {
    for versioning in [Versioning::GitWithOrigin, Versioning::Git, Versioning::Plain] {
        let case = fixture_with_turn(versioning);
        let Some(other) = SmallDisk::mount(16 << 10).expect("a small disk") else { return };
        let place = other.path().join("p").to_string_lossy().into_owned();
        copy_directory(&case, "p", &place);
        fs_err::remove_dir_all(case.path("p")).expect("removed");

        let mut ran = run_program_in(&case, &place, &["undo"]);
        if versioning != Versioning::GitWithOrigin {
            assert_eq!(ran.code, 1, "{versioning:?}: {ran:?}");
            let id = project_ids(&case).remove(0);
            assert!(ran.err.contains(&format!("project relink {id}")), "{}", ran.err);
            assert_eq!(run_program_in(&case, &place, &["project", "relink", &id]).code, 0);
            ran = run_program_in(&case, &place, &["undo"]);
        }

        assert_eq!(ran.code, 0, "{versioning:?}: {ran:?}");
        assert!(!ran.err.contains("git repository is gone"), "{}", ran.err);
        assert_eq!(read_file(&other.path().join("p/f")), "one\n", "{versioning:?}");
        assert_eq!(project_ids(&case).len(), 1, "{versioning:?}");
    }
}

/// Restores a directory from a backup: its files keep their times and get other inodes.
#[expect(clippy::disallowed_methods, reason = "cp itself makes the copies of tests")]
fn restore_from_backup(case: &CliFixture, place: &str) {
    let backup = case.path("backup");
    fs_err::rename(case.path(place), &backup).expect("moved");
    let copy =
        std::process::Command::new("cp").arg("-a").args([&backup, &case.path(place)]).status();
    assert!(copy.expect("cp runs").success());
    fs_err::remove_dir_all(&backup).expect("removed");
}

/// Proves R12 and R31: with the data directory restored, every identity in it is that of another file system.
#[test]
fn projects_restored_with_the_data_directory_keep_their_sessions() {
    let case = fixture_with_turn(Versioning::Plain);
    for store in fs_err::read_dir(case.data_dir().join("store")).expect("listed") {
        let record = store.expect("an entry").path().join("store.json");
        if let Ok(record) = fs_err::OpenOptions::new().append(true).open(record) {
            record.file().set_modified(std::time::UNIX_EPOCH).expect("set");
        }
    }
    restore_from_backup(&case, "p");
    restore_from_backup(&case, "data");

    for command in ["undo", "redo", "undo"] {
        assert_eq!(session_count(&case, "p"), 1);
        let ran = run_program_in(&case, "p", &[command]);
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
    }
    assert_eq!(read_file(&case.path("p/f")), "one\n");
    assert_eq!(project_ids(&case).len(), 1);
}
