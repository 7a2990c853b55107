//! Consumers hold the log, up to a limit.

use turnstone_core::time::LogCursor;
use turnstone_store::{MaintenanceBudget, MaintenanceLimits, StoreError};

use super::history::{HistoryRunner, HistoryStep, session_id};
use super::{maintain, maintain_with};

const DAY: i64 = 24 * 60 * 60 * 1000;

fn limits_without_grace() -> MaintenanceLimits {
    MaintenanceLimits { grace_ms: 0, ..MaintenanceLimits::default() }
}

fn todos(world: &mut HistoryRunner, n: u8) -> LogCursor {
    for n in 1..=n {
        assert!(world.run(&HistoryStep::Todos { s: 0, n }));
    }
    world.store.read(&world.ctx(), |r| r.log().last_cursor()).expect("cursor")
}

fn advance(world: &HistoryRunner, cursor: LogCursor) -> Result<(), StoreError> {
    world.store.write(&world.ctx(), move |tx| tx.consumers().advance("mirror", cursor)).wait()
}

fn resync(world: &HistoryRunner) -> bool {
    let consumer =
        world.store.read(&world.ctx(), |r| r.consumers().find("mirror")).expect("consumer");
    consumer.expect("registered").resync
}

#[test]
fn unread_events_are_kept_for_consumer() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    let half = todos(&mut world, 2);
    advance(&world, half).expect("advanced");
    let end = todos(&mut world, 3);
    let compact = |world: &HistoryRunner| {
        maintain_with(world, MaintenanceBudget::unlimited(), &limits_without_grace()).compacted
    };
    assert_eq!(compact(&world), 1, "what it has read");
    assert_eq!(compact(&world), 0);
    advance(&world, end).expect("advanced");
    advance(&world, half).expect("never goes back");
    assert_eq!(compact(&world), 3, "the rest");
    let wrong = advance(&world, LogCursor(end.0 + 1));
    assert!(matches!(wrong, Err(StoreError::Invalid(_))), "{wrong:?}");
}

#[test]
fn consumer_lagging_too_long_is_marked_and_retains_nothing() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    let start = todos(&mut world, 1);
    advance(&world, start).expect("advanced");
    // A quiet consumer that has read everything does not lag, however long it is quiet.
    world.now = world.now.plus(30 * DAY);
    assert_eq!(
        maintain_with(&world, MaintenanceBudget::unlimited(), &limits_without_grace())
            .marked_consumers,
        0
    );
    todos(&mut world, 3);
    world.now = world.now.plus(6 * DAY);
    let done = maintain_with(&world, MaintenanceBudget::unlimited(), &limits_without_grace());
    assert_eq!((done.marked_consumers, done.compacted, resync(&world)), (0, 0, false));
    world.now = world.now.plus(2 * DAY);
    let done = maintain_with(&world, MaintenanceBudget::unlimited(), &limits_without_grace());
    assert_eq!((done.marked_consumers, done.compacted, resync(&world)), (1, 2, true));
    advance(&world, start).expect("advanced");
    assert!(resync(&world), "only a reset takes the mark away");
    let end = todos(&mut world, 1);
    world
        .store
        .write(&world.ctx(), move |tx| tx.consumers().reset("mirror", end))
        .wait()
        .expect("reset");
    assert!(!resync(&world));
    assert!(
        world.store.write(&world.ctx(), |tx| tx.consumers().remove("mirror")).wait().expect("gone")
    );
}

#[test]
fn consumer_lagging_by_too_many_bytes_is_marked() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    let start = todos(&mut world, 1);
    advance(&world, start).expect("advanced");
    todos(&mut world, 3);
    let small = |lag_bytes| MaintenanceLimits { lag_bytes, ..limits_without_grace() };
    assert_eq!(
        maintain_with(&world, MaintenanceBudget::unlimited(), &small(10_000)).marked_consumers,
        0
    );
    assert_eq!(
        maintain_with(&world, MaintenanceBudget::unlimited(), &small(300)).marked_consumers,
        1
    );
    let sizes = world.store.maintenance().measure_sizes(&world.ctx(), 5).expect("sizes");
    assert!(sizes.consumers[0].resync && sizes.consumers[0].bytes > 300, "{sizes:?}");
}

#[test]
fn events_in_outbox_are_not_compacted() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    world.run(&HistoryStep::Share { s: 0, n: 1 });
    todos(&mut world, 3);
    assert_eq!(
        maintain_with(&world, MaintenanceBudget::unlimited(), &limits_without_grace()).compacted,
        0
    );
    let id = session_id(0);
    let rows = world.store.read(&world.ctx(), |r| r.shares().outbox(&id, 0, 100)).expect("outbox");
    let last = rows.last().expect("rows").0;
    world
        .store
        .write(&world.ctx(), move |tx| tx.shares().acknowledge_outbox(&id, last))
        .wait()
        .expect("sent");
    assert_eq!(
        maintain_with(&world, MaintenanceBudget::unlimited(), &limits_without_grace()).compacted,
        2
    );
}

#[test]
fn old_idempotency_keys_expire() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    for n in 0..3 {
        let ctx = world.ctx().with_idempotency_key(format!("key {n}"));
        world.store.idempotency().store_answer(&ctx, "1".to_owned()).expect("stored");
        world.now = world.now.plus(3 * DAY);
    }
    world.now = world.now.plus(1);
    assert_eq!(maintain(&world, MaintenanceBudget::unlimited()).expired_keys, 1);
}
