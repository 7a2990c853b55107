//! The handle: the same answers for the owner of a store and for everybody else (R11).

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use case::{HandleFixture, group, restore, undo};
use support::{NOW, git_in, path, paths_of};
use turnstone_snapshot::{
    DiffOptions, EvictionRequest, ExpiryStep, FreeSpaceFloor, GcRequest, OperationAction,
    OperationRequest, RestoreOperationId, SnapshotError, SnapshotHandle, SnapshotOptions,
    StorageBudget, StoreLinkage, StoreRegistry,
};
use turnstone_testkit::fixture::SeededRng;

#[cfg(test)]
mod case {
    use std::path::PathBuf;

    use tempfile::TempDir;
    use turnstone_snapshot::{
        OperationAction, OperationRequest, PinGroup, RestoreOperationId, RestoreReport,
        SnapshotHandle, SnapshotOptions,
    };

    use crate::support::NOW;

    pub(crate) struct HandleFixture {
        pub(crate) dir: TempDir,
    }

    impl HandleFixture {
        pub(crate) fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs_err::create_dir_all(dir.path().join("work")).unwrap();
            Self { dir }
        }

        pub(crate) fn at(&self, path: &str) -> PathBuf {
            self.dir.path().join(path)
        }

        pub(crate) fn open(&self) -> SnapshotHandle {
            self.open_in("work")
        }

        pub(crate) fn open_in(&self, folder: &str) -> SnapshotHandle {
            let (data, run) = (self.at("data"), self.at("run"));
            let options = SnapshotOptions::default();
            SnapshotHandle::open(&data, Some(&run), &self.at(folder), options, NOW).unwrap()
        }

        pub(crate) fn write(&self, name: &str, text: &str) {
            fs_err::write(self.at("work").join(name), text).unwrap();
        }

        pub(crate) fn read(&self, name: &str) -> String {
            fs_err::read_to_string(self.at("work").join(name)).unwrap()
        }
    }

    pub(crate) fn group() -> PinGroup {
        PinGroup::new("test")
    }

    pub(crate) fn restore(handle: &SnapshotHandle, text: &str) -> RestoreReport {
        let target = handle.reader().find_capture(text).unwrap();
        let plan = handle.plan_restore(&target, None, false, NOW).unwrap();
        let action = OperationAction::Restore { tree: target.tree, paths: Vec::new() };
        handle
            .apply_once(
                &OperationRequest { id: RestoreOperationId::generate().unwrap(), action, plan },
                NOW,
            )
            .unwrap()
    }

    pub(crate) fn undo(handle: &SnapshotHandle) -> RestoreReport {
        let last = handle.reader().find_operation(None).unwrap();
        let plan = handle.plan_undo(&last.id, NOW).unwrap();
        let action = OperationAction::Undo { of: last.id };
        handle
            .apply_once(
                &OperationRequest { id: RestoreOperationId::generate().unwrap(), action, plan },
                NOW,
            )
            .unwrap()
    }
}

/// Captures, lists, shows, compares, restores, undoes, undoes the undo, verifies.
#[cfg(test)]
fn exercise_all_requests(case: &HandleFixture, handle: &SnapshotHandle) {
    case.write("a", "one\n");
    case.write("b", "stays\n");
    let first = handle.capture(&group(), NOW).unwrap();
    assert_eq!((first.files, first.changed, first.is_new), (2, 2, true));
    case.write("a", "two\n");
    case.write("c", "new\n");
    let second = handle.capture(&group(), NOW.plus(1)).unwrap();

    let listed = handle.reader().list_captures().unwrap();
    let ids: Vec<_> = listed.iter().map(|it| (it.id, it.files, it.mode.as_str())).collect();
    assert_eq!(ids[0], (second.capture.id, Some(3), "walk"));
    assert_eq!(ids[1], (first.capture.id, Some(2), "walk"));
    let files = handle.reader().list_files(&first.capture).unwrap();
    let files: Vec<_> = files.iter().map(|it| (it.path.to_string(), it.size, it.perm)).collect();
    assert_eq!(files, [("a".to_owned(), 4, 0o644), ("b".to_owned(), 6, 0o644)]);
    let options = DiffOptions::default();
    let diff = handle.reader().diff_captures(&first.capture, &second.capture, &options).unwrap();
    assert_eq!(diff.files.len(), 2);
    assert!(handle.reader().diff_worktree(&second.capture, &options).unwrap().files.is_empty());
    let changed = handle.reader().diff_worktree(&first.capture, &options).unwrap();
    assert_eq!(changed.patch(), diff.patch());

    let tree = first.capture.tree.to_string();
    assert!(handle.reader().find_capture(&tree[..7]).is_ok());
    assert!(handle.reader().find_capture(&first.capture.id.to_string()[..9]).is_ok());
    assert!(matches!(handle.reader().find_capture("abc"), Err(SnapshotError::NoCapture { .. })));
    assert!(matches!(handle.reader().find_operation(None), Err(SnapshotError::NothingToUndo(_))));
    let report = restore(handle, &tree);
    assert_eq!((&report.restored[..], &report.removed[..]), (&[path("a")][..], &[path("c")][..]));
    assert_eq!(case.read("a"), "one\n");
    assert_eq!(undo(handle).restored, [path("a"), path("c")]);
    assert_eq!((case.read("a"), case.read("c")), ("two\n".to_owned(), "new\n".to_owned()));
    assert_eq!(undo(handle).removed, [path("c")], "the undo is undone");
    assert_eq!(case.read("a"), "one\n");
    let operations = handle.reader().list_operations().unwrap();
    assert_eq!(operations.iter().map(|it| it.number).collect::<Vec<_>>(), [3, 2, 1]);

    let late = NOW.plus(2);
    let named = handle.capture_named(&group(), &paths_of(&["b", "none"]), false, late).unwrap();
    assert_eq!(named.capture.coverage.absent, [path("none")]);
    let verified = handle.reader().verify_objects().unwrap();
    assert!(verified.damaged.is_empty() && verified.objects > 10, "{verified:?}");
    let mut sweep = GcRequest {
        live: BTreeSet::new(),
        deleted: BTreeSet::new(),
        keep: 7_200_000,
        effort: u64::MAX,
        dry_run: true,
        now: NOW.plus(7_200_000),
    };
    let plan = handle.maintenance().collect_garbage(&sweep).unwrap();
    assert_eq!((plan.expired, plan.gc.dropped_groups.len()), (1, 4), "{plan:?}");
    assert_eq!(handle.reader().list_operations().unwrap().len(), 3, "a dry run changes nothing");
    sweep.dry_run = false;
    assert_eq!(
        handle.maintenance().collect_garbage(&sweep).unwrap().gc.dropped_groups,
        plan.gc.dropped_groups
    );
    assert!(handle.reader().list_operations().unwrap().is_empty());
    assert_eq!(handle.reader().list_captures().unwrap().len(), 2);
    assert!(handle.reader().usage().unwrap().bytes > 0);
    git_in(&handle.reader().git_dir().unwrap(), &["fsck", "--full"]);
}

/// Proves R11.
#[test]
fn owner_serves_its_own_requests() {
    let case = HandleFixture::new();
    let handle = case.open();
    assert!(handle.is_owner() && handle.is_serving_clients());
    exercise_all_requests(&case, &handle);
}

/// Proves R11.
#[test]
fn client_gets_the_same_results_through_the_owner() {
    let case = HandleFixture::new();
    let owner = case.open();
    let other = case.open();
    assert!(owner.is_owner() && !other.is_owner());
    exercise_all_requests(&case, &other);
    assert!(!other.is_owner());
}

/// Proves R11.
#[test]
fn next_client_takes_ownership_when_owner_exits() {
    let case = HandleFixture::new();
    let owner = case.open();
    let other = case.open();
    case.write("a", "1");
    let first = other.capture(&group(), NOW).unwrap();
    assert!(!other.is_owner());

    drop(owner);
    assert!(!other.capture(&group(), NOW).unwrap().is_new);
    assert!(other.is_owner());
    assert_eq!(
        other.reader().find_capture(&first.capture.tree.to_string()).unwrap().id,
        first.capture.id
    );
    let third = case.open();
    assert!(!third.is_owner());
    assert_eq!(third.reader().list_captures().unwrap().len(), 1);
}

/// Proves R17.
#[test]
fn repeated_operation_request_is_applied_once() {
    let case = HandleFixture::new();
    let (owner, other) = (case.open(), case.open());
    case.write("a", "old");
    let target = other.capture(&group(), NOW).unwrap().capture;
    case.write("a", "new");
    let plan = other.plan_restore(&target, None, false, NOW).unwrap();
    let action = OperationAction::Restore { tree: target.tree, paths: Vec::new() };
    let order = OperationRequest { id: RestoreOperationId::generate().unwrap(), action, plan };

    let report = other.apply_once(&order, NOW).unwrap();
    case.write("a", "a human was here");
    assert_eq!(other.apply_once(&order, NOW).unwrap(), report);
    assert_eq!(owner.apply_once(&order, NOW).unwrap(), report);
    assert_eq!(case.read("a"), "a human was here");
    assert_eq!(other.reader().list_operations().unwrap().len(), 1);
}

/// Proves R14.
#[test]
fn undo_keeps_later_edits_and_skips_conflicts() {
    let case = HandleFixture::new();
    let handle = case.open();
    let text = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n{last}\n");
    case.write("a", &text("old", "8"));
    case.write("b", "old");
    let tree = handle.capture(&group(), NOW).unwrap().capture.tree.to_string();
    case.write("a", &text("new", "8"));
    case.write("b", "new");
    restore(&handle, &tree);
    case.write("a", &text("old", "human"));
    case.write("b", "human");

    let report = undo(&handle);

    assert_eq!(report.merged, [path("a")]);
    assert_eq!(case.read("a"), text("new", "human"));
    assert_eq!(report.conflicts.len(), 1);
    assert_eq!(case.read("b"), "human");
    let again = undo(&handle);
    assert!(again.conflicts.is_empty(), "what was not done is not undone: {again:?}");
    assert_eq!((case.read("a"), case.read("b")), (text("old", "human"), "human".to_owned()));
}

/// Proves R11.
#[test]
fn malformed_requests_are_refused_and_owner_survives() {
    let case = HandleFixture::new();
    let owner = case.open();
    let socket = fs_err::read_dir(case.at("run")).unwrap().next().unwrap().unwrap().path();
    let ask = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(bytes).unwrap();
        drop(stream.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        // An owner that did not want the rest closes without having read it.
        drop(stream.read_to_end(&mut answer));
        String::from_utf8_lossy(answer.get(4..).unwrap_or_default()).into_owned()
    };
    let frame = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();

    assert_eq!(ask(b""), "");
    assert_eq!(ask(b"\0\0"), "");
    assert_eq!(ask(b"\0\0\0\x09half"), "");
    assert!(ask(b"GET / HTTP/1.1\r\n\r\n").contains("too_large"));
    assert!(ask(&frame("{}")).contains("malformed"));
    assert!(ask(&frame("not json")).contains("malformed"));
    let id = owner.location().id.to_string();
    let text = format!(r#"{{"version":99,"store":"{id}","request":"hello"}}"#);
    assert!(ask(&frame(&text)).contains("version"));
    let hello = |store: &str| format!(r#"{{"version":7,"store":"{store}","request":"hello"}}"#);
    assert!(ask(&frame(&hello("another"))).contains("missing"));
    assert!(ask(&frame(&hello(&id))).contains("hello"));
    let hostile =
        r#"{"capture_named":{"group":"x","paths":["../../etc/passwd"],"keep":false,"now":1}}"#;
    let text = format!(r#"{{"version":7,"store":"{id}","request":{hostile}}}"#);
    assert!(ask(&frame(&text)).contains("malformed"));

    let other = case.open();
    case.write("a", "1");
    assert!(!other.is_owner() && other.capture(&group(), NOW).unwrap().is_new);
}

/// Proves R11.
#[test]
fn excess_connections_retry_until_served() {
    let case = HandleFixture::new();
    let owner = case.open();
    case.write("a", "1");
    let socket = fs_err::read_dir(case.at("run")).unwrap().next().unwrap().unwrap().path();
    let idle: Vec<_> = (0..40).map(|_| UnixStream::connect(&socket).unwrap()).collect();

    std::thread::scope(|scope| {
        let asks: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| case.open().capture(&group(), NOW).unwrap().capture.tree))
            .collect();
        drop(idle);
        let trees: Vec<_> = asks.into_iter().map(|it| it.join().unwrap()).collect();
        assert!(trees.iter().all(|tree| *tree == trees[0]));
    });
    assert!(owner.is_owner());
}

/// Proves R11.
#[test]
fn stale_socket_and_false_lock_file_are_tolerated() {
    let case = HandleFixture::new();
    drop(case.open());
    let store = StoreRegistry::new(&case.at("data")).list_stores().unwrap().remove(0);
    // As after sudden death: the pid is for messages only, and no process listens.
    let text = format!("process 1, socket {}", case.at("run/gone.sock").display());
    fs_err::write(store.folder.join("keeper"), text).unwrap();
    fs_err::write(case.at("run/gone.sock"), "no socket").unwrap();

    let handle = case.open();
    assert!(handle.is_owner() && handle.is_serving_clients());
    case.write("a", "1");
    assert!(case.open().capture(&group(), NOW).unwrap().is_new);
}

/// Proves R13.
#[test]
fn owner_measures_and_evicts_for_clients() {
    let case = HandleFixture::new();
    let open = || {
        let (data, run) = (case.at("data"), case.at("run"));
        let budget = StorageBudget {
            store: 60 << 10,
            floor: FreeSpaceFloor::Bytes(0),
            ..StorageBudget::default()
        };
        let options = SnapshotOptions { budget, ..SnapshotOptions::default() };
        SnapshotHandle::open(&data, Some(&run), &case.at("work"), options, NOW).unwrap()
    };
    let (owner, other) = (open(), open());
    assert!(owner.is_owner() && !other.is_owner());
    let mut rng = SeededRng::new(3);
    let mut noise = || (0..12 << 10).map(|_| char::from(b' ' + rng.below(95) as u8)).collect();
    let mut ids = Vec::new();
    let refused = loop {
        let text: String = noise();
        case.write("a", &text);
        match other.capture_named(&group(), &paths_of(&["a"]), false, NOW) {
            Ok(captured) => ids.push(captured.capture.id),
            Err(error) => break error,
        }
    };
    let over = refused.over_budget().expect("the sizes came over the socket");
    assert!(refused.is_full() && over.limit == 60 << 10 && ids.len() > 2, "{over:?}");
    let live = BTreeSet::from([group()]);
    let need = EvictionRequest { bytes: over.needed, live, effort: 1 << 20, now: NOW };
    assert!(!other.maintenance().reclaim_unpinned(&need).unwrap().fits, "everything is pinned");
    let steps: Vec<ExpiryStep> =
        ids.iter().map(|id| ExpiryStep { group: group(), keep_from: Some(*id) }).collect();

    let freed = other.maintenance().measure_expiry(&steps, NOW).unwrap();
    assert_eq!((freed.len(), freed[0]), (steps.len(), 0), "the first keeps everything");
    let excess = over.used + over.needed - over.limit;
    let enough = (1..=freed.len()).find(|nth| freed[..*nth].iter().sum::<u64>() >= excess);
    let enough = enough.expect("enough");
    assert_eq!(
        owner.reader().list_captures().unwrap().len(),
        ids.len(),
        "nothing went by measuring"
    );
    let report = other.maintenance().expire_captures(&steps[..enough], &need).unwrap();
    assert!(report.fits && report.expired[0].captures.len() == enough - 1, "{report:?}");
    let again = other.maintenance().expire_captures(&steps[..enough], &need).unwrap();
    assert!(again.fits && again.expired.is_empty(), "once and for all: {again:?}");
    other.capture_named(&group(), &paths_of(&["a"]), false, NOW).unwrap();
    for (nth, id) in ids.iter().enumerate() {
        let found = other.reader().find_capture(&id.to_string());
        assert_eq!(found.is_ok_and(|found| found.id == *id), nth + 1 >= enough, "by its old id");
    }
}

/// Proves R12.
#[test]
fn moved_project_keeps_its_captures() {
    let case = HandleFixture::new();
    case.write("a", "1");
    let first = case.open().capture(&group(), NOW).unwrap().capture;
    fs_err::rename(case.at("work"), case.at("moved")).unwrap();

    let handle = case.open_in("moved");

    assert!(matches!(handle.location().link, StoreLinkage::Moved(_)));
    assert_eq!(handle.reader().find_capture(&first.tree.to_string()).unwrap().id, first.id);
    assert!(!handle.capture(&group(), NOW).unwrap().is_new);
}

/// Proves R7.
#[test]
fn reading_creates_no_store_and_data_dir_is_never_captured() {
    let case = HandleFixture::new();
    let options = SnapshotOptions { create_store: false, ..SnapshotOptions::default() };
    let opened = SnapshotHandle::open(&case.at("data"), None, &case.at("work"), options, NOW);
    assert!(matches!(opened, Err(SnapshotError::Untracked(_))));
    assert!(!case.at("data").exists());

    case.write("a", "1");
    let data = case.at("work/deep/data");
    let options = SnapshotOptions::default();
    let handle = SnapshotHandle::open(&data, None, &case.at("work"), options, NOW).unwrap();
    let captured = handle.capture(&group(), NOW).unwrap();
    assert_eq!(captured.files, 1);
    assert!(handle.is_serving_clients(), "without a runtime directory the socket is with the data");
}

#[test]
fn verify_finds_a_flipped_byte_and_a_missing_pack() {
    let case = HandleFixture::new();
    case.write("a", &"some text\n".repeat(100));
    let handle = case.open();
    handle.capture(&group(), NOW).unwrap();
    let packs = handle.reader().git_dir().unwrap().join("objects/pack");
    let pack = fs_err::read_dir(packs).unwrap().map(|entry| entry.unwrap().path());
    let pack = pack.filter(|path| path.extension().is_some_and(|it| it == "pack")).last().unwrap();
    drop(handle);
    let mut bytes = fs_err::read(&pack).unwrap();
    bytes[30] ^= 0x40;
    fs_err::remove_file(&pack).unwrap();
    fs_err::write(&pack, bytes).unwrap();

    let verified = case.open().reader().verify_objects().unwrap();
    assert!(!verified.damaged.is_empty(), "{verified:?}");

    fs_err::remove_file(&pack).unwrap();
    let verified = case.open().reader().verify_objects().unwrap();
    assert!(!verified.damaged.is_empty(), "{verified:?}");
}

/// R12: what was copied needs nothing of where it came from, not even that it exists.
#[test]
fn captures_are_copied_to_another_store_with_their_objects() {
    let case = HandleFixture::new();
    fs_err::create_dir_all(case.at("other")).unwrap();
    case.write("f", "one\n");
    let from = case.open();
    let first = from.capture(&group(), NOW).unwrap().capture;
    case.write("f", "two\n");
    let second = from.capture(&group(), NOW).unwrap().capture;
    let to = case.open_in("other");
    let there = turnstone_snapshot::PinGroup::new("there");

    for _ in 0..2 {
        to.copy_captures(&from, &[first.id, second.id], &there, NOW).unwrap();
    }

    let listed = to.reader().list_captures().unwrap();
    let ids: Vec<_> = listed.iter().map(|it| it.id).collect();
    assert_eq!(ids, [second.id, first.id], "once each, under their own ids");
    drop(from);
    fs_err::remove_dir_all(case.at("work")).unwrap();
    let stores = fs_err::read_dir(case.at("data/store")).unwrap().flatten();
    let own = to.location().folder.clone();
    for store in stores.filter(|it| it.path().is_dir()) {
        if fs_err::canonicalize(store.path()).unwrap() != own {
            fs_err::remove_dir_all(store.path()).unwrap();
        }
    }
    assert!(to.reader().verify_objects().unwrap().damaged.is_empty());
    restore(&to, &first.id.to_string());
    assert_eq!(fs_err::read_to_string(case.at("other/f")).unwrap(), "one\n");
}

/// Proves R12.
#[test]
fn copying_a_missing_capture_copies_nothing() {
    let case = HandleFixture::new();
    fs_err::create_dir_all(case.at("other")).unwrap();
    case.write("f", "one\n");
    let from = case.open();
    let first = from.capture(&group(), NOW).unwrap().capture;
    let to = case.open_in("other");
    let unknown = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".parse().unwrap();
    let refused = to.copy_captures(&from, &[first.id, unknown], &group(), NOW);
    assert!(refused.is_err());
    assert!(to.reader().list_captures().unwrap().is_empty());
}
