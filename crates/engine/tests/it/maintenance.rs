//! Upkeep and recovery for a process that runs on (R41, R45).

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
    let (recovered, tended) =
        case.engine.maintenance().recover_and_maintain(&later(1)).expect("sweeps");
    assert_eq!((recovered.interrupted.len(), tended.stores), (0, 0), "once a minute costs nothing");
    assert_eq!(
        case.engine.maintenance().recover_and_maintain(&later(2)).expect("sweeps").1.stores,
        1
    );
    assert_eq!(stores(25, MaintenanceInterval::Daily), 0);
    assert_eq!(stores(26, MaintenanceInterval::Daily), 1);
}

/// Proves R41.
#[test]
fn captures_of_deleted_session_expire_after_retention() {
    let case = EngineFixture::new();
    let [kept, gone] = ["ses_kept", "ses_gone"].map(|id| case.session(id, None));
    case.turn(&kept, "f", Some("one"));
    case.turn(&gone, "g", Some("two"));
    case.engine.store().delete_session(&ctx(), &gone).expect("deletes");
    let groups = || -> Vec<String> {
        let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
        handle.reader().list_chains().expect("reads").into_keys().collect()
    };
    let directories = [case.root()].into();

    case.engine.maintenance().run_after_delete(&later(2), &directories).expect("tends");
    assert_eq!(groups(), ["ses_gone", "ses_kept"], "not before its days are over");
    case.engine.maintenance().run_after_delete(&later(8 * 24), &directories).expect("tends");
    assert_eq!(groups(), ["ses_kept"]);
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
    let spoken = serde_json::json!({"type": "text", "text": "x",
        "metadata": {"outputPath": folder.join("prt_spoken")}});
    let parts = [
        crate::engine_fixture::part(
            &message,
            "known",
            serde_json::json!({"type": "text", "text": "x"}),
        ),
        crate::engine_fixture::part(&message, "copy", spoken),
    ];
    let write = move |tx: &turnstone_store::Tx<'_>| {
        tx.messages().put(&message)?;
        parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))
    };
    case.engine.store().write(&turn.context(&ctx()), write).wait().expect("written");
    case.edit(&turn, "f", Some("one"));
    case.end(&turn);

    let tended = case.engine.maintenance().run(&ctx(), MaintenanceInterval::Daily).expect("tends");

    let mut left: Vec<_> = fs_err::read_dir(&folder).expect("reads").flatten().collect();
    left.sort_by_key(fs_err::DirEntry::file_name);
    let left: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
    assert_eq!((tended.outputs, left.len()), (1, 2), "{left:?}");
    assert_eq!(left, ["prt_known", "prt_spoken"]);
}
