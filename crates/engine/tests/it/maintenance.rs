//! Maintenance and recovery for a process that runs on (R41, R45).

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::MaintenanceInterval;
use turnstone_store::Context;

use crate::engine_fixture::{EngineFixture, NOW, ctx};

const HOUR: i64 = 3_600_000;

fn later(hours: i64) -> Context {
    let mut ctx = ctx();
    ctx.now = EpochMillis(NOW.0 + hours * HOUR);
    ctx
}

/// Proves R41.
#[test]
fn maintenance_is_hourly_for_servers_daily_for_commands() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    let stores = |hours: i64, cadence| {
        case.engine.maintenance().run(&later(hours), cadence).expect("tends").stores
    };

    assert_eq!(stores(0, MaintenanceInterval::Daily), 1, "it never ran");
    assert_eq!(stores(1, MaintenanceInterval::Daily), 0);
    assert_eq!(stores(1, MaintenanceInterval::Hourly), 1);
    let (recovered, maintained) =
        case.engine.maintenance().recover_and_maintain(&later(1)).expect("sweeps");
    assert_eq!(
        (recovered.interrupted.len(), maintained.stores),
        (0, 0),
        "once a minute costs nothing"
    );
    let sweep = |hours| case.engine.maintenance().recover_and_maintain(&later(hours));
    assert_eq!(sweep(2).expect("sweeps").1.stores, 0, "an idle store was closed");
    case.turn(&session, "f", Some("two"));
    assert_eq!(sweep(2).expect("sweeps").1.stores, 1, "maintained first, then closed");
    case.turn(&session, "f", Some("three"));
    assert_eq!(stores(25, MaintenanceInterval::Daily), 0);
    assert_eq!(stores(26, MaintenanceInterval::Daily), 1);
}

/// Proves R23.
#[test]
fn captures_of_deleted_session_go_at_once() {
    let case = EngineFixture::new();
    let [kept, gone] = ["ses_kept", "ses_gone"].map(|id| case.session(id, None));
    case.turn(&kept, "f", Some("one"));
    case.turn(&gone, "g", Some("two"));
    let groups = || -> Vec<String> {
        let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
        handle.reader().list_chains().expect("reads").into_keys().collect()
    };
    assert_eq!(groups(), ["ses_gone", "ses_kept"]);
    let reads = || fs_err::read_dir(case.dir.path().join("data/sight")).map_or(0, Iterator::count);
    case.engine.tool_calls().read_file(&ctx(), &gone, "f".as_ref()).expect("read");
    assert_eq!(reads(), 1);
    let forced = || {
        let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
        fs_err::read_to_string(handle.location().folder.join("forced.json")).expect("reads")
    };
    assert_eq!(forced(), r#"["f","g"]"#);
    case.engine.store().delete_session(&ctx(), &gone).expect("deletes");

    let report =
        case.engine.maintenance().session_eraser().finish_deletions(&ctx()).expect("finishes");

    assert_eq!((report.sessions, report.unreachable_stores), (vec![gone], Vec::new()));
    assert_eq!((groups(), reads()), (vec!["ses_kept".to_owned()], 0));
    assert_eq!(forced(), r#"["f"]"#, "names of files go, too");
    assert_eq!(
        case.engine.maintenance().session_eraser().pending_deletions(&ctx()).expect("reads"),
        []
    );
    let verified = case
        .engine
        .snapshots()
        .open(&case.root(), NOW)
        .expect("opens")
        .reader()
        .verify_objects()
        .expect("reads");
    assert!(verified.damaged.is_empty());
}

/// Proves R23, R40.
#[test]
fn copies_are_named_over_deleted_forks() {
    let case = EngineFixture::new();
    let original = case.session("ses_a", None);
    case.turn(&original, "f", Some("one"));
    let fork = |session: &_| {
        case.engine.history().forks().fork_session(&ctx(), session, None).expect("forks").id
    };
    let first = fork(&original);
    let second = fork(&first);
    let third = fork(&second);
    let erasure = case.engine.maintenance().session_eraser();
    let copies = |deleted: &[turnstone_core::id::SessionId]| {
        let mut forks = erasure.find_retained_copies(&ctx(), deleted).expect("reads").forks;
        forks.sort_unstable();
        forks
    };
    let sorted = |mut all: Vec<_>| {
        all.sort_unstable();
        all
    };
    case.engine.store().delete_session(&ctx(), &first).expect("deletes");
    erasure.finish_deletions(&ctx()).expect("finishes");
    assert_eq!(copies(&[first]), sorted(vec![second.clone(), third.clone()]));

    case.engine.store().delete_session(&ctx(), &original).expect("deletes");

    assert_eq!(copies(&[original]), sorted(vec![second, third]));
}

/// Proves R23, R45.
#[test]
fn recovery_ignores_open_calls_of_deleted_sessions() {
    let case = EngineFixture::new();
    let [other, gone] = ["ses_other", "ses_gone"].map(|id| case.session(id, None));
    let turn = case.begin(&gone);
    let calls = case.engine.tool_calls();
    let call = calls.open_window(&ctx(), &turn, None).expect("opens");
    case.engine.store().delete_session(&ctx(), &gone).expect("deletes");

    let open = case.engine.store().read(&ctx(), |r| r.change_sets().list_open(None));
    let recovered = case.engine.maintenance().recover_all(&ctx());

    assert_eq!(open.expect("reads"), []);
    assert_eq!(recovered.expect("recovers").closed, []);
    assert!(calls.close(&ctx(), &turn, &call).is_err(), "its session is gone");
    case.turn(&other, "f", Some("one"));
    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
}

/// Proves R41.
#[test]
fn output_file_is_kept_while_referenced() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let folder = case.dir.path().join("data/output");
    fs_err::create_dir_all(&folder).expect("made");
    for name in ["prt_known", "prt_spoken", "prt_gone"] {
        fs_err::write(folder.join(name), "long").expect("written");
    }
    let turn = case.begin(&session);
    let message = crate::engine_fixture::answer(&session, "a1", "1");
    let text_part = serde_json::json!({"type": "text", "text": "x",
        "metadata": {"outputPath": folder.join("prt_spoken")}});
    let parts = [
        crate::engine_fixture::part(
            &message,
            "known",
            serde_json::json!({"type": "text", "text": "x"}),
        ),
        crate::engine_fixture::part(&message, "copy", text_part),
    ];
    let write = move |tx: &turnstone_store::Tx<'_>| {
        tx.messages().put(&message)?;
        parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))
    };
    case.engine.store().write(&turn.context(&ctx()), write).wait().expect("written");
    case.edit(&turn, "f", Some("one"));
    case.end(&turn);

    let maintained =
        case.engine.maintenance().run(&ctx(), MaintenanceInterval::Daily).expect("tends");

    let mut left: Vec<_> = fs_err::read_dir(&folder).expect("reads").flatten().collect();
    left.sort_by_key(fs_err::DirEntry::file_name);
    let left: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
    assert_eq!((maintained.outputs, left.len()), (1, 2), "{left:?}");
    assert_eq!(left, ["prt_known", "prt_spoken"]);
}
