//! The disk of the data directory is full: what fits is recorded, the rest waits or is named, and
//! everything stored can be read.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::operation::OperationKind;
use turnstone_store::NewOperation;
use turnstone_testkit::small_disk::SmallDisk;

use crate::exec::run_program;
use crate::fixture::{CliFixture, read_file};
use crate::serve_shell::TestServer;

/// A fixture whose data directory is on a disk of 4 MB; nothing where none can be mounted.
fn fixture_on_small_disk() -> Option<(SmallDisk, CliFixture)> {
    let disk = SmallDisk::mount(4096).expect("a directory")?;
    let case = CliFixture::empty();
    fs_err::create_dir(disk.path().join("data")).expect("made");
    symlink(disk.path().join("data"), case.data_dir()).expect("linked");
    fs_err::write(case.path("p/a"), "one\n").expect("written");
    Some((disk, case))
}

/// Fills the disk from inside of a command.
fn fill_script(disk: &SmallDisk, work: &str) -> String {
    format!("{work}; cat /dev/zero > {}/filler 2>/dev/null; true", disk.path().display())
}

fn running_turns(case: &CliFixture) -> Vec<Value> {
    let log = case.run_json(&["log", "--all"]);
    let entries = log["entries"].as_array().expect("entries").clone();
    entries.into_iter().filter(|entry| entry["state"] == "running").collect()
}

#[test]
fn exec_names_file_without_space_and_undo_restores_the_others() {
    let Some((_disk, case)) = fixture_on_small_disk() else { return };
    let script = "echo two > a; head -c 6000000 /dev/urandom > huge";

    let ran = run_program(&case, &["exec", "--", "sh", "-c", script]);

    assert_eq!(ran.code, 0, "the exit code is that of the command: {ran:?}");
    assert!(ran.err.contains("no space left for huge"), "{ran:?}");
    assert!(!ran.err.contains("no space left for a"), "{ran:?}");
    let undone = run_program(&case, &["undo"]);
    assert_eq!(read_file(&case.path("p/a")), "one\n", "{undone:?}");
    assert!(case.path("p/huge").exists());
    let said = format!("{}{}", undone.out, undone.err);
    assert!(said.contains("huge  (no_space)") || said.contains("no space left"), "{undone:?}");
    assert!(!said.contains("no file had to be changed"), "{undone:?}");
}

#[test]
fn changes_on_full_disk_stay_pending_and_are_recorded_later() {
    let Some((disk, case)) = fixture_on_small_disk() else { return };
    let script = fill_script(&disk, "head -c 1000000 /dev/urandom > a");

    let ran = run_program(&case, &["exec", "--", "sh", "-c", &script]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("no space left"), "{ran:?}");
    // What the program gave back when it ended is taken, too.
    disk.fill().expect("filled");
    let changed = fs_err::read(case.path("p/a")).expect("read");
    for args in [&["status"][..], &["session", "list"], &["log"], &["diff"], &["snapshot", "list"]]
    {
        let read = run_program(&case, args);
        assert_eq!(read.code, 0, "{args:?}: {read:?}");
    }
    let status = case.run_json(&["status"]);
    assert_eq!(status["pending"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(status["at_work"], json!([]), "{status}");
    let refused = run_program(&case, &["undo"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.to_lowercase().contains("no space left"), "{refused:?}");
    assert_eq!(fs_err::read(case.path("p/a")).expect("read"), changed);

    disk.free().expect("freed");
    let undone = run_program(&case, &["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(read_file(&case.path("p/a")), "one\n", "{undone:?}");
    let status = case.run_json(&["status"]);
    assert_eq!(status["pending"], json!([]), "{status}");
    assert_eq!(running_turns(&case), Vec::<Value>::new());
}

/// A turn on a disk with so much room left has created a file; its diff needs more room than its undo.
fn fixture_with_created_file(room: u64) -> Option<(SmallDisk, CliFixture)> {
    let disk = SmallDisk::mount(8000).expect("a directory")?;
    let case = CliFixture::empty();
    fs_err::create_dir(disk.path().join("data")).expect("made");
    symlink(disk.path().join("data"), case.data_dir()).expect("linked");
    assert_eq!(run_program(&case, &["exec", "--", "sh", "-c", "echo Z > z"]).code, 0);
    let script = "head -c 300000 /dev/urandom | base64 > r";
    assert_eq!(run_program(&case, &["exec", "--", "sh", "-c", script]).code, 0);
    disk.fill_leaving(room).expect("filled");
    Some((disk, case))
}

#[test]
fn undo_with_any_amount_of_room_is_recorded_or_changes_nothing() {
    for kib in [380, 470, 500, 530, 560, 800] {
        let Some((disk, case)) = fixture_with_created_file(kib << 10) else { return };
        let planned = run_program(&case, &["undo", "--dry-run"]);

        let undone = run_program(&case, &["undo"]);

        assert_eq!(undone.code, planned.code, "{kib} KiB: {undone:?}");
        let is_done = undone.code == 0;
        assert_eq!(case.path("p/r").exists(), !is_done, "{kib} KiB: {undone:?}");
        disk.free().expect("freed");
        let again = run_program(&case, &["undo"]);
        assert!(!again.err.contains("finished"), "{kib} KiB: {again:?}");
        assert!(!case.path("p/r").exists(), "{kib} KiB: {again:?}");
        assert_eq!(case.path("p/z").exists(), !is_done, "the next turn is undone: {again:?}");
    }
}

/// Stores the plan of an undo that was undone as if the process had been killed before it began.
fn interrupt_same_undo_again(case: &CliFixture, session: &str) {
    let store = case.open_store();
    let session: SessionId = session.parse().expect("an id");
    let listed = store.read(&CliFixture::context(), |r| r.operations().list(&session));
    let undo = listed.expect("listed").into_iter().find(|it| it.kind == OperationKind::Undo);
    let undo = undo.expect("an undo");
    let order = undo.plan["orders"][0][1].as_str().expect("an order").to_owned();
    let id = undo.id.to_string();
    let other =
        |id: &str| format!("{}{}", &id[..id.len() - 1], if id.ends_with('0') { 1 } else { 0 });
    let (id_again, order_again) = (other(&id), other(&order));
    let plan = undo.plan.to_string().replace(&id, &id_again).replace(&order, &order_again);
    let new = NewOperation {
        id: id_again.parse().expect("an id"),
        kind: OperationKind::Undo,
        plan: serde_json::from_str(&plan).expect("JSON"),
    };
    let write = store.write(&CliFixture::context(), move |tx| tx.operations().plan(&session, &new));
    write.wait().expect("stored");
}

#[test]
fn undo_that_finishes_an_interrupted_one_undoes_no_other_turn() {
    let case = CliFixture::empty();
    for name in ["z", "r"] {
        let script = format!("echo {name} > {name}");
        assert_eq!(run_program(&case, &["exec", "--", "sh", "-c", &script]).code, 0);
    }
    assert_eq!(run_program(&case, &["undo"]).code, 0);
    assert_eq!(run_program(&case, &["redo"]).code, 0);
    let listed = case.run_json(&["session", "list"]);
    interrupt_same_undo_again(&case, listed["sessions"][0]["id"].as_str().expect("an id"));

    let undone = run_program(&case, &["undo"]);

    assert_eq!((undone.code, undone.out.as_str()), (0, "removed    r\n"), "{undone:?}");
    assert!(undone.err.contains("had been interrupted and is finished now"), "{undone:?}");
    assert!(case.path("p/z").exists() && !case.path("p/r").exists());
    let next = run_program(&case, &["undo"]);
    assert_eq!(next.out, "removed    z\n", "{next:?}");
}

#[test]
fn full_disk_is_read_by_commands_and_server() {
    let Some((disk, case)) = fixture_on_small_disk() else { return };
    assert_eq!(run_program(&case, &["exec", "--", "sh", "-c", "echo two > a"]).code, 0);
    disk.fill().expect("filled");
    for args in [&["session", "list"][..], &["log"], &["status"], &["doctor"], &["search", "two"]] {
        let read = run_program(&case, args);
        assert_eq!(read.code, 0, "{args:?}: {read:?}");
    }
    let refused = run_program(&case, &["exec", "--", "true"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.err.contains("no space left") && refused.err.contains("hint: "), "{refused:?}");

    let server = TestServer::start(&case);

    let (status, listed) = server.request("GET", "/session", &Value::Null);
    assert_eq!((status, listed.as_array().map(Vec::len)), (200, Some(1)), "{listed}");
    let (status, refused) = server.request("POST", "/session", &json!({}));
    assert_eq!((status, &refused["_tag"]), (507, &json!("StorageFullError")), "{refused}");
    disk.free().expect("freed");
    server.create_session();
}

#[test]
fn turn_of_server_ends_once_there_is_space() {
    let Some((disk, case)) = fixture_on_small_disk() else { return };
    let server = TestServer::start(&case);
    let session = server.create_session();
    let script = fill_script(&disk, "echo two > a");

    let (status, answer) = server.run_shell(&session, &script);

    assert!([200, 507].contains(&status), "{status}: {answer}");
    disk.free().expect("freed");
    // The server ends the turn by itself: no request asks for the session.
    while server.request("GET", "/session/status", &Value::Null).1 != json!({}) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (status, answer) = server.run_shell(&session, "echo three > b");
    assert_eq!(status, 200, "the session is not busy: {answer}");
    let (_, busy) = server.request("GET", "/session/status", &Value::Null);
    assert_eq!(busy, json!({}), "no turn runs");
    drop(server);
    assert_eq!(running_turns(&case), Vec::<Value>::new());
}
