//! Upkeep and recovery for a process that runs on (R41, R45).

use turnstone_core::time::Millis;
use turnstone_snapshot::Cadence;
use turnstone_store::Context;

use crate::support::{Case, NOW, ctx};

const HOUR: i64 = 3_600_000;

fn later(hours: i64) -> Context {
    let mut ctx = ctx();
    ctx.now = Millis(NOW.0 + hours * HOUR);
    ctx
}

#[test]
fn a_sweep_collects_hourly_and_a_command_daily_r41() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    let stores =
        |hours: i64, cadence| case.engine.tend(&later(hours), cadence).expect("tends").stores;

    assert_eq!(stores(0, Cadence::Command), 1, "it never ran");
    assert_eq!(stores(1, Cadence::Command), 0);
    assert_eq!(stores(1, Cadence::Keeper), 1);
    let (recovered, tended) = case.engine.sweep(&later(1)).expect("sweeps");
    assert_eq!((recovered.interrupted.len(), tended.stores), (0, 0), "once a minute costs nothing");
    assert_eq!(case.engine.sweep(&later(2)).expect("sweeps").1.stores, 1);
    assert_eq!(stores(25, Cadence::Command), 0);
    assert_eq!(stores(26, Cadence::Command), 1);
}

#[test]
fn captures_of_a_deleted_session_go_after_the_time_that_was_set_r41() {
    let case = Case::new();
    let [kept, gone] = ["ses_kept", "ses_gone"].map(|id| case.session(id, None));
    case.turn(&kept, "f", Some("one"));
    case.turn(&gone, "g", Some("two"));
    case.engine.store().delete_session(&ctx(), &gone).expect("deletes");
    let groups = || -> Vec<String> {
        let vault = case.engine.vault(&case.root(), NOW).expect("opens");
        vault.list_chains().expect("reads").into_keys().collect()
    };
    let directories = [case.root()].into();

    case.engine.tend_after_delete(&later(2), &directories).expect("tends");
    assert_eq!(groups(), ["ses_gone", "ses_kept"], "not before its days are over");
    case.engine.tend_after_delete(&later(8 * 24), &directories).expect("tends");
    assert_eq!(groups(), ["ses_kept"]);
    let verified = case.engine.vault(&case.root(), NOW).expect("opens").verify().expect("reads");
    assert!(verified.damaged.is_empty());
}

#[test]
fn output_is_kept_while_a_fork_or_a_hidden_part_speaks_of_it_r41() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    let folder = case.dir.path().join("data/output");
    fs_err::create_dir_all(&folder).expect("made");
    for name in ["prt_known", "prt_spoken", "prt_gone"] {
        fs_err::write(folder.join(name), "long").expect("written");
    }
    let turn = case.begin(&session);
    let message = crate::support::answer(&session, "a1", "1");
    let spoken = serde_json::json!({"type": "text", "text": "x",
        "metadata": {"outputPath": folder.join("prt_spoken")}});
    let parts = [
        crate::support::part(&message, "known", serde_json::json!({"type": "text", "text": "x"})),
        crate::support::part(&message, "copy", spoken),
    ];
    let write = move |tx: &turnstone_store::Tx<'_>| {
        tx.put_message(&message)?;
        parts.iter().try_for_each(|part| tx.put_part(part).map(drop))
    };
    case.engine.store().write(&turn.context(&ctx()), write).wait().expect("written");
    case.edit(&turn, "f", Some("one"));
    case.end(&turn);

    let tended = case.engine.tend(&ctx(), Cadence::Command).expect("tends");

    let mut left: Vec<_> = fs_err::read_dir(&folder).expect("reads").flatten().collect();
    left.sort_by_key(fs_err::DirEntry::file_name);
    let left: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
    assert_eq!((tended.outputs, left.len()), (1, 2), "{left:?}");
    assert_eq!(left, ["prt_known", "prt_spoken"]);
}
