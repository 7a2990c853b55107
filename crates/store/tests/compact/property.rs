//! Compaction changes nothing that anybody can see, however and whenever it runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use turnstone_core::time::{EpochMillis, SessionSeq};
use turnstone_store::{
    Actor, Context, DataLayout, LogEvent, MaintenanceBudget, MaintenanceLimits, Options,
    SessionAtBoundary, Store, StoreError, SyncBody, SyncEvent,
};

use super::history::{HistoryRunner, HistoryStep, SESSIONS, history, session_id};
use super::{immediate_limits, maintain, whole_log};

/// What a replica has after applying numbered events in order.
type ReplicaState = BTreeMap<String, String>;

fn replay(events: &[SyncEvent]) -> ReplicaState {
    let mut replica = ReplicaState::new();
    for event in events {
        match &event.body {
            SyncBody::Session(session) => {
                replica.insert("session".to_owned(), format!("{session:?}"));
            }
            SyncBody::SessionDeleted => replica.clear(),
            SyncBody::Message(message) => {
                replica.insert(message.id.to_string(), format!("{message:?}"));
            }
            SyncBody::MessageRemoved(id) => {
                replica.remove(id.as_str());
                replica.retain(|key, _| !key.starts_with(&format!("{id}/")));
            }
            // As there: a part of a message that is not there is ignored.
            SyncBody::Part(part) if replica.contains_key(part.message.as_str()) => {
                let key = format!("{}/{}", part.message, part.id);
                replica.insert(key, format!("{part:?}"));
            }
            SyncBody::Part(_) => {}
            SyncBody::PartRemoved { message, part } => {
                replica.remove(&format!("{message}/{part}"));
            }
        }
    }
    replica
}

/// What was seen at a boundary while it happened.
struct RecordedState {
    session: u8,
    seq: SessionSeq,
    state: SessionAtBoundary,
    replica: ReplicaState,
}

fn live(world: &HistoryRunner, s: u8) -> (SessionAtBoundary, ReplicaState) {
    let id = session_id(s);
    let read = world.store.read(&world.ctx(), |r| {
        let session = r.sessions().get(&id)?;
        let messages = r.messages().list(&id, None, 1000)?.items;
        let state = SessionAtBoundary { session, messages, todos: r.sessions().todos(&id)? };
        Ok((state, replay(&r.sync().after(&id, -1, 100_000)?)))
    });
    read.expect("live state")
}

/// Takes a step and records what was seen at the boundaries it made.
fn run_recorded(world: &mut HistoryRunner, step: &HistoryStep, recorded: &mut Vec<RecordedState>) {
    let seqs = |world: &HistoryRunner| -> Vec<SessionSeq> {
        let seq = |s| world.store.read(&world.ctx(), |r| r.sessions().seq(&session_id(s)));
        (0..SESSIONS).map(|s| seq(s).expect("seq")).collect()
    };
    let before: Vec<_> = (0..SESSIONS).map(|s| live(world, s)).collect();
    let old = seqs(world);
    world.run(step);
    for ((s, new), (old, before)) in (0..).zip(seqs(world)).zip(old.into_iter().zip(before)) {
        let id = session_id(s);
        let found = world.store.read(&world.ctx(), |r| r.history().boundaries(&id, old, 100));
        for boundary in found.expect("boundaries") {
            // A step makes one boundary: as its last event, or as the first one of a new turn.
            let seen = if boundary.seq == new { live(world, s) } else { before.clone() };
            assert!(boundary.seq == new || boundary.seq.0 == old.0 + 1, "in the middle of a step");
            recorded.push(RecordedState {
                session: s,
                seq: boundary.seq,
                state: seen.0,
                replica: seen.1,
            });
        }
    }
}

pub(super) fn check_numbers(world: &HistoryRunner) {
    for s in 0..SESSIONS {
        let id = session_id(s);
        let (page, end, numbered) = world
            .store
            .read(&world.ctx(), |r| {
                let page = r.log().stream_after(&id, SessionSeq(0), 100_000)?;
                Ok((page, r.sessions().seq(&id)?, r.sync().after(&id, -1, 100_000)?))
            })
            .expect("stream");
        let mut at = 0;
        for event in &page.events {
            let seq = event.seq.expect("seq").0;
            assert_eq!(seq - event.span, at, "a gap before {seq}");
            assert!(event.span == 1 || event.is_stub());
            at = seq;
        }
        assert_eq!(at, end.0);
        assert_eq!(page.resync, page.events.iter().any(LogEvent::is_stub));
        let numbers: Vec<i64> = numbered.iter().map(|event| event.sync_seq).collect();
        assert_eq!(numbers, (0..numbers.len() as i64).collect::<Vec<_>>());
        let own = page.events.iter().filter(|event| event.sync_seq.is_some()).count();
        assert_eq!(own, numbers.len());
    }
}

fn check_recorded(world: &HistoryRunner, recorded: &[RecordedState]) {
    for RecordedState { session, seq, state, replica } in recorded {
        let id = session_id(*session);
        let (at, numbered) = world
            .store
            .read(&world.ctx(), |r| {
                let here = r.history().boundaries(&id, SessionSeq(seq.0 - 1), 1)?[0].cursor;
                let numbered = r.sync().after(&id, -1, 100_000)?;
                let numbered: Vec<SyncEvent> =
                    numbered.into_iter().take_while(|event| event.cursor <= here).collect();
                Ok((r.history().session_at_boundary(&id, *seq)?, numbered))
            })
            .expect("state at a boundary");
        assert_eq!(&at, state, "session {session} at {seq}");
        assert_eq!(&replay(&numbered), replica, "replica of {session} at {seq}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn compaction_is_not_seen_by_readers(
        steps in history(90),
        pauses in prop::collection::vec((0..90_usize, 0..12_u64), 0..5),
    ) {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut world = HistoryRunner::new(dir.path());
        let mut recorded = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            run_recorded(&mut world, step, &mut recorded);
            for (_, steps) in pauses.iter().filter(|pause| pause.0 == index) {
                let before = world.reads();
                maintain(&world, MaintenanceBudget::steps(*steps));
                prop_assert_eq!(before, world.reads());
            }
        }
        let before = world.reads();
        check_numbers(&world);
        prop_assert!(maintain(&world, MaintenanceBudget::unlimited()).finished);
        prop_assert_eq!(before, world.reads());
        check_numbers(&world);
        check_recorded(&world, &recorded);
        // The retained log alone makes the same tables (R25).
        prop_assert_eq!(world.store.maintenance().verify_projections().expect("verifies"), []);

        let log = whole_log(&world);
        let again = maintain(&world, MaintenanceBudget::unlimited());
        prop_assert_eq!((again.compacted, again.freed_bytes), (0, 0));
        prop_assert_eq!(log, whole_log(&world));
    }
}

#[test]
fn session_at_rejects_non_boundaries() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    world.run(&HistoryStep::Begin { s: 0 });
    let at = |seq| {
        world.store.read(&world.ctx(), |r| {
            r.history().session_at_boundary(&session_id(0), SessionSeq(seq))
        })
    };
    assert!(matches!(at(1), Err(StoreError::NoBoundary { seq: SessionSeq(1), .. })), "created");
    assert!(at(2).expect("turn accepted").messages.is_empty());
    assert!(matches!(at(3), Err(StoreError::NoBoundary { .. })), "its message");
    assert!(matches!(at(4), Err(StoreError::BeyondEnd { end: SessionSeq(3), .. })));
}

#[test]
fn two_stores_compact_while_a_third_writes() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    let (done, mut recorded) = (AtomicBool::new(false), Vec::new());
    let mut runner = TestRunner::deterministic();
    let mut steps = Vec::new();
    while steps.len() < 400 {
        steps.extend(history(100).new_tree(&mut runner).expect("a history").current());
    }
    let compact = || {
        // A store of its own, as another process would have.
        let now = EpochMillis(1_000_000);
        let store = Store::open(&Options::new(DataLayout::new(dir.path()), now)).expect("opens");
        let ctx = Context::new(Actor::new("maintenance").expect("actor"), now.plus(1_000_000_000));
        let mut compacted = 0;
        while !done.load(Ordering::SeqCst) {
            let limits = MaintenanceLimits { key_retention_ms: 0, ..immediate_limits() };
            let run = store
                .maintenance()
                .run_with(&ctx, MaintenanceBudget::steps(20), &limits)
                .expect("maintained");
            compacted += run.compacted;
        }
        compacted
    };
    let compacted: u64 = std::thread::scope(|scope| {
        let others = [scope.spawn(compact), scope.spawn(compact)];
        for step in &steps {
            run_recorded(&mut world, step, &mut recorded);
        }
        done.store(true, Ordering::SeqCst);
        others.map(|other| other.join().expect("compacted")).iter().sum()
    });
    assert!(compacted > 0, "they did nothing");
    let reads = world.reads();
    maintain(&world, MaintenanceBudget::unlimited());
    assert_eq!(reads, world.reads());
    check_numbers(&world);
    check_recorded(&world, &recorded);
    assert!(world.store.writer_stats().is_some_and(|stats| stats.most_rows() <= 500));
}
