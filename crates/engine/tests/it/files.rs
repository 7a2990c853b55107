//! Files: read before written, never written over somebody's save, one writer at a time (8.8).

use std::path::{Path, PathBuf};
use std::sync::Barrier;

use crate::engine_fixture::{EngineFixture, NOW, ctx};
use turnstone_core::change::{Evidence, PathImage};
use turnstone_core::id::SessionId;
use turnstone_core::time::EpochMillis;
use turnstone_engine::{
    ClosedCall, Engine, EngineSettings, FileError, FileWriteRequest, Turn, UndoTarget,
    WritePrecondition,
};

fn write_of(path: &str, text: &str) -> FileWriteRequest {
    let bytes = Some(text.as_bytes().to_vec());
    FileWriteRequest { path: PathBuf::from(path), expected: WritePrecondition::Read, bytes }
}

fn write(
    case: &EngineFixture,
    turn: &Turn,
    path: &str,
    text: &str,
) -> Result<ClosedCall, FileError> {
    case.engine.tool_calls().write_file(&ctx(), turn, None, &write_of(path, text))
}

fn read(case: &EngineFixture, session: &SessionId, path: &str) -> Option<String> {
    let read = case.engine.tool_calls().read_file(&ctx(), session, Path::new(path)).expect("read");
    read.bytes.map(|bytes| String::from_utf8(bytes).expect("text"))
}

#[test]
fn existing_file_must_be_read_before_write() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("old", Some("old"));
    let turn = case.begin(&session);

    let refused = write(&case, &turn, "old", "new").expect_err("not read");
    assert!(matches!(&refused, FileError::NeverRead { path } if path.ends_with("old")));
    assert_eq!(case.read("old").as_deref(), Some("old"));

    assert_eq!(read(&case, &session, "old").as_deref(), Some("old"));
    let closed = write(&case, &turn, "old", "new").expect("written");
    assert_eq!(closed.changes.len(), 1);
    assert_eq!(case.read("old").as_deref(), Some("new"));
    // Its own write is something it has seen; a file that is not there needs no look.
    write(&case, &turn, "old", "newer").expect("written");
    write(&case, &turn, "deep/er/made", "made").expect("written");
    assert_eq!(case.read("deep/er/made").as_deref(), Some("made"));
    case.end(&turn);

    let report = case.undo(&session, &UndoTarget::Last);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("old").as_deref(), Some("old"));
    assert_eq!(case.read("deep/er/made"), None);
}

#[test]
fn read_stamps_are_per_session() {
    let case = EngineFixture::new();
    let (one, two) = (case.session("ses_a", None), case.session("ses_b", None));
    case.put("f", Some("f"));
    read(&case, &one, "f");
    let turn = case.begin(&two);
    let refused = write(&case, &turn, "f", "g").expect_err("not read");
    assert!(matches!(refused, FileError::NeverRead { .. }));
    case.end(&turn);
}

#[test]
fn stale_write_is_rejected_with_both_stamps() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one"));
    let turn = case.begin(&session);
    read(&case, &session, "f");
    case.put("f", Some("two"));
    let later = ctx().at_time(EpochMillis(NOW.0 + 5_000));

    let refused = case.engine.tool_calls().write_file(&later, &turn, None, &write_of("f", "mine"));

    let Err(FileError::Stale { read: saw, now, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_ne!(saw.image, now.image);
    assert_eq!((saw.seen, now.seen), (NOW, later.now));
    assert!(saw.modified.is_some() && now.modified.is_some());
    assert_eq!(case.read("f").as_deref(), Some("two"), "the save is there");
    // Removed counts as changed; only touched does not.
    read(&case, &session, "f");
    case.put("f", None);
    assert!(matches!(write(&case, &turn, "f", "mine"), Err(FileError::Stale { .. })));
    case.put("f", Some("two"));
    write(&case, &turn, "f", "mine").expect("what was read is there again");
    case.end(&turn);
}

#[test]
fn write_accepts_absent_or_explicit_stamp() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one"));
    let turn = case.begin(&session);
    let stamp =
        case.engine.tool_calls().read_file(&ctx(), &session, Path::new("f")).expect("read").stamp;
    let make = FileWriteRequest { expected: WritePrecondition::Absent, ..write_of("f", "made") };
    let refused =
        case.engine.tool_calls().write_file(&ctx(), &turn, None, &make).expect_err("it is there");
    assert!(matches!(refused, FileError::Stale { read, .. } if read.image == PathImage::Absent));

    let swap = |text: &str| {
        let expected = WritePrecondition::Stamp(stamp.clone());
        let write = FileWriteRequest { expected, ..write_of("f", text) };
        case.engine.tool_calls().write_file(&ctx(), &turn, None, &write)
    };
    swap("first").expect("written");
    assert!(matches!(swap("second"), Err(FileError::Stale { .. })), "of two only one wins");
    assert_eq!(case.read("f").as_deref(), Some("first"));
    case.end(&turn);
}

/// Proves R15.
#[test]
fn save_between_compare_and_swap_is_kept() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one"));
    let turn = case.begin(&session);
    read(&case, &session, "f");
    let file = case.root().join("f");
    let scenario = fail::FailScenario::setup();
    // In the last moment before the files change places.
    let save = move || fs_err::write(&file, "saved by a person").expect("saved");
    fail::cfg_callback("snapshot::before_swap", save).expect("set");

    let refused = write(&case, &turn, "f", "mine");

    scenario.teardown();
    assert!(matches!(refused, Err(FileError::Stale { .. })), "{refused:?}");
    assert_eq!(case.read("f").as_deref(), Some("saved by a person"));
    case.end(&turn);
    let left: Vec<_> = fs_err::read_dir(case.root()).expect("read").collect();
    assert_eq!(left.len(), 1, "no temporary name stays: {left:?}");
}

/// Proves R2, R15.
#[test]
fn save_right_after_a_write_is_not_the_turns() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one\ntwo\n3\n4\n5\n6\n"));
    let turn = case.begin(&session);
    read(&case, &session, "f");
    let file = case.root().join("f");
    let scenario = fail::FailScenario::setup();
    let save =
        move || fs_err::write(&file, "one\nTWO\n3\n4\n5\nsix, by a person\n").expect("saved");
    fail::cfg_callback("engine::after_file_write", save).expect("set");

    let closed = write(&case, &turn, "f", "one\nTWO\n3\n4\n5\n6\n").expect("written");

    scenario.teardown();
    assert_eq!(closed.changes.len(), 1);
    let again = write(&case, &turn, "f", "mine");
    assert!(matches!(again, Err(FileError::Stale { .. })), "it has not seen the save: {again:?}");
    case.end(&turn);
    let report = case.undo(&session, &UndoTarget::Last);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f").as_deref(), Some("one\ntwo\n3\n4\n5\nsix, by a person\n"));
}

#[test]
fn concurrent_edits_of_one_file_lose_nothing() {
    let case = EngineFixture::new();
    let sessions = [case.session("ses_a", None), case.session("ses_b", None)];
    case.put("f", Some(""));
    let turns = sessions.each_ref().map(|session| case.begin(session));
    let start = Barrier::new(2);
    let engine = &case.engine;
    let edit = |turn: &Turn, line: &str| {
        start.wait();
        let (mut done, mut stale) = (0, 0);
        while done < 10 {
            let read =
                engine.tool_calls().read_file(&ctx(), &turn.session, Path::new("f")).expect("read");
            let text = String::from_utf8(read.bytes.unwrap_or_default()).expect("text");
            let write = write_of("f", &format!("{text}{line}\n"));
            match engine.tool_calls().write_file(&ctx(), turn, None, &write) {
                Ok(_) => done += 1,
                Err(FileError::Stale { .. } | FileError::Locked { .. }) => stale += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        stale
    };
    std::thread::scope(|scope| {
        let one = scope.spawn(|| edit(&turns[0], "a"));
        let two = scope.spawn(|| edit(&turns[1], "b"));
        one.join().expect("done");
        two.join().expect("done");
    });
    let text = case.read("f").expect("there");
    let count = |line: &str| text.lines().filter(|it| *it == line).count();
    assert_eq!((count("a"), count("b"), text.lines().count()), (10, 10, 20), "{text}");
    turns.iter().for_each(|turn| case.end(turn));
    let locks = case.dir.path().join("data/lock/file");
    assert_eq!(fs_err::read_dir(locks).expect("read").count(), 0, "no lock is left behind");
}

#[test]
fn locks_are_taken_all_or_none_and_never_waited_for() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let names: Vec<PathBuf> = (0..4).map(|n| case.root().join(format!("f{n}"))).collect();
    let lock = |names: &[PathBuf]| case.engine.tool_calls().try_lock_files(&ctx(), &session, names);
    let held = lock(&names[1..2]).expect("locked");
    let refused = lock(&names).expect_err("one is locked");
    assert!(matches!(&refused, FileError::Locked { path } if *path == names[1]), "{refused:?}");
    // Different files are nobody's business, and the refused attempt holds none.
    drop(lock(&names[2..]).expect("locked"));
    drop(held);
    drop(lock(&names).expect("locked"));
    // One file, by several names.
    std::os::unix::fs::symlink("f0", case.root().join("link")).expect("linked");
    fs_err::create_dir(case.root().join("sub")).expect("made");
    let held = lock(&["link".into(), "sub/../f0".into(), names[0].clone()]).expect("locked");
    assert!(matches!(lock(&names[..1]), Err(FileError::Locked { .. })));
    drop(held);
    let outside = lock(&["/etc/passwd".into()]);
    assert!(matches!(outside, Err(FileError::Outside { .. })), "{outside:?}");
    let locks = case.dir.path().join("data/lock/file");
    assert_eq!(fs_err::read_dir(locks).expect("read").count(), 0, "no lock is left behind");
}

#[test]
fn lock_on_another_file_does_not_allow_a_write() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let calls = case.engine.tool_calls();
    let lock = calls.try_lock_files(&ctx(), &session, &["a".into()]).expect("locked");
    let make = FileWriteRequest { expected: WritePrecondition::Absent, ..write_of("b", "b") };
    let refused = calls.write_files(&ctx(), &turn, None, (&[make], lock));
    assert!(matches!(refused, Err(FileError::Locked { .. })), "{refused:?}");
    assert_eq!(case.read("b"), None);
    case.end(&turn);
}

/// Proves R16.
#[test]
fn symlinks_resolve_and_outside_writes_are_rejected() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let outside = tempfile::tempdir().expect("temp dir");
    case.put("real", Some("real"));
    std::os::unix::fs::symlink("real", case.root().join("link")).expect("linked");
    std::os::unix::fs::symlink(outside.path(), case.root().join("out")).expect("linked");
    let turn = case.begin(&session);

    assert_eq!(read(&case, &session, "link").as_deref(), Some("real"));
    write(&case, &turn, "real", "by its name").expect("one file, one stamp");
    write(&case, &turn, "link", "by its link").expect("written");
    assert_eq!(case.read("real").as_deref(), Some("by its link"));
    assert!(case.root().join("link").is_symlink());

    for path in ["out/x", "../x", "/etc/x"] {
        let refused = write(&case, &turn, path, "x").expect_err("outside");
        assert!(matches!(refused, FileError::Outside { .. }), "{path}: {refused:?}");
    }
    assert_eq!(fs_err::read_dir(outside.path()).expect("read").count(), 0);
    case.end(&turn);
}

#[test]
fn multi_file_write_is_one_call_and_checks_all_first() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("a", Some("a"));
    case.put("b", Some("b"));
    let turn = case.begin(&session);
    read(&case, &session, "a");
    let both = [write_of("a", "A"), write_of("b", "B")];
    let calls = case.engine.tool_calls();
    let lock = || calls.try_lock_files(&ctx(), &session, &["a".into(), "b".into()]).expect("free");
    let refused =
        calls.write_files(&ctx(), &turn, None, (&both, lock())).expect_err("b is not read");
    assert!(matches!(refused, FileError::NeverRead { .. }));
    assert_eq!(case.read("a").as_deref(), Some("a"));

    read(&case, &session, "b");
    let gone = FileWriteRequest { bytes: None, ..write_of("b", "") };
    let done = calls.write_files(&ctx(), &turn, None, (&[write_of("a", "A"), gone], lock()));
    let done = done.expect("written");
    assert!(done.refused.is_empty());
    assert_eq!(done.closed.changes.len(), 2);
    assert_eq!((case.read("a").as_deref(), case.read("b")), (Some("A"), None));
    case.end(&turn);
    let rows = case.engine.store().read(&ctx(), |r| r.change_sets().list(&session)).expect("reads");
    assert!(rows.iter().all(|row| row.set.evidence == Evidence::Named));
}

/// W16 of stamps: they are gone with the process, so nothing is written that was not read again.
#[test]
fn read_stamps_survive_restart() {
    use std::os::unix::fs::PermissionsExt;
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("run", Some("#!/bin/sh\n"));
    case.put("kept", Some("kept"));
    let mode = std::fs::Permissions::from_mode(0o750);
    fs_err::set_permissions(case.root().join("run"), mode).expect("set");
    read(&case, &session, "run");
    read(&case, &session, "kept");
    let case = case.reopen();
    case.put("kept", Some("saved by a person"));
    let turn = case.begin(&session);
    let refused = write(&case, &turn, "kept", "x").expect_err("it changed while nobody looked");
    assert!(matches!(&refused, FileError::Stale { read, .. } if read.seen == NOW), "{refused:?}");
    assert_eq!(case.read("kept").as_deref(), Some("saved by a person"));
    write(&case, &turn, "run", "#!/bin/sh\ntrue\n").expect("seen before the restart");
    let mode = fs_err::metadata(case.root().join("run")).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o750);
    case.end(&turn);
    let case = case.reopen();
    let turn = case.begin(&session);
    write(&case, &turn, "run", "#!/bin/sh\nfalse\n").expect("its own write is seen too");
    case.end(&turn);
}

#[test]
fn processes_of_a_session_share_read_stamps() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one"));
    let second =
        Engine::open(EngineSettings::new(&case.dir.path().join("data")), NOW).expect("opens");
    let write_by_second = |turn: &Turn, text: &str| {
        second.tool_calls().write_file(&ctx(), turn, None, &write_of("f", text))
    };
    read(&case, &session, "f");
    let turn = case.begin(&session);
    write_by_second(&turn, "two").expect("the first process read it");
    write(&case, &turn, "f", "three").expect("the second process wrote it");
    case.put("f", Some("by a person"));
    let refused = write_by_second(&turn, "four").expect_err("its last version is the one written");
    assert!(matches!(refused, FileError::Stale { .. }), "{refused:?}");
    case.end(&turn);
}

#[test]
fn deleting_a_session_removes_its_read_stamps() {
    let case = EngineFixture::new();
    let (one, two) = (case.session("ses_a", None), case.session("ses_b", None));
    case.put("f", Some("f"));
    read(&case, &one, "f");
    let kept = || fs_err::read_dir(case.dir.path().join("data/sight")).expect("listed").count();
    assert_eq!(kept(), 1, "one file for a session, and no event for a look");
    case.engine.store().delete_session(&ctx(), &one).expect("deleted");
    read(&case, &two, "f");
    assert_eq!(kept(), 1);
}

#[test]
fn interrupted_write_is_absent_or_complete() {
    for (point, expected) in [("engine::before_file_write", "one"), ("snapshot::restored", "mine")]
    {
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        case.put("f", Some("one"));
        let turn = case.begin(&session);
        read(&case, &session, "f");
        let scenario = fail::FailScenario::setup();
        let action = if point.starts_with("engine") { "panic" } else { "return" };
        fail::cfg(point, action).expect("set");
        let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            write(&case, &turn, "f", "mine").is_ok()
        }));
        scenario.teardown();
        assert!(!matches!(cut, Ok(true)), "{point}");
        let case = case.reopen();
        case.engine.maintenance().recover_all(&ctx()).expect("recovered");
        assert_eq!(case.read("f").as_deref(), Some(expected), "{point}");
        let report = case.undo(&session, &UndoTarget::Turn(turn.id));
        assert!(report.is_complete(), "{point}: {report:?}");
        assert_eq!(case.read("f").as_deref(), Some("one"), "{point}");
    }
}
