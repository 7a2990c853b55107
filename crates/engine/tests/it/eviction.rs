//! Space: whose undo data is evicted for a capture that does not fit, and how it is reported (R13).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_engine::{
    Engine, EngineError, EngineSettings, MissingCapture, OverBudgetPolicy, UndoOptions, UndoTarget,
};
use turnstone_snapshot::{FreeSpaceFloor, SnapshotHandle, StorageBudget};
use turnstone_testkit::fixture::SeededRng;

use crate::engine_fixture::{EngineFixture, NOW, ctx};

/// About what one edit of [`IncompressibleText`] takes.
const SIZE: usize = 20 << 10;

/// Texts that do not compress.
pub(crate) struct IncompressibleText(SeededRng);

impl IncompressibleText {
    pub(crate) fn new() -> Self {
        Self(SeededRng::new(7))
    }

    pub(crate) fn text(&mut self, size: usize) -> String {
        (0..size).map(|_| char::from(b' ' + self.0.below(95) as u8)).collect()
    }
}

pub(crate) fn settings(case: &EngineFixture, store: usize) -> EngineSettings {
    let mut settings = EngineSettings::new(&case.dir.path().join("data"));
    settings.snapshot_options.budget = StorageBudget {
        store: store as u64,
        floor: FreeSpaceFloor::Bytes(0),
        ..StorageBudget::default()
    };
    settings
}

/// A case whose snapshot store may take so many bytes.
pub(crate) fn fixture_with_budget(store: usize) -> EngineFixture {
    let mut case = EngineFixture::new();
    case.engine = Engine::open(settings(&case, store), NOW).expect("opens");
    case
}

fn expired(case: &EngineFixture, session: &SessionId) -> BTreeSet<TurnId> {
    let read = case
        .engine
        .store()
        .read(&ctx(), |r| r.undo_expiry().expired_turns(session))
        .expect("reads");
    read.into_keys().collect()
}

fn plan(case: &EngineFixture, session: &SessionId, which: &UndoTarget) -> Result<(), EngineError> {
    case.engine.history().plan_undo(&ctx(), session, which, &UndoOptions::default()).map(drop)
}

fn handle(case: &EngineFixture) -> std::sync::Arc<SnapshotHandle> {
    case.engine.snapshots().open(&case.root(), NOW).expect("opens")
}

fn used(case: &EngineFixture) -> u64 {
    handle(case).reader().usage().expect("reads").bytes
}

fn archive(case: &EngineFixture, session: &SessionId) {
    let id = session.clone();
    let put = move |tx: &turnstone_store::Tx<'_>| {
        tx.sessions().update(&id, |session| {
            session.time.archived = Some(1.into());
            Ok(())
        })
    };
    case.engine.store().write(&ctx(), put).wait().expect("archived");
}

/// Proves R13.
#[test]
fn eviction_order_is_archived_then_idle_oldest_turn_first() {
    let budget = 10 * SIZE;
    let (case, mut noise) = (fixture_with_budget(budget), IncompressibleText::new());
    let [idle, archived, busy] =
        ["ses_idle", "ses_archived", "ses_busy"].map(|id| case.session(id, None));
    let fill = |session: &SessionId, noise: &mut IncompressibleText| {
        case.turn(session, session.as_str(), Some(&noise.text(SIZE)))
    };
    let first: Vec<TurnId> = (0..3).map(|_| fill(&idle, &mut noise)).collect();
    let second: Vec<TurnId> = (0..3).map(|_| fill(&archived, &mut noise)).collect();
    archive(&case, &archived);
    let mut order = Vec::new();
    for _ in 0..12 {
        fill(&busy, &mut noise);
        for session in [&idle, &archived, &busy] {
            let fresh = expired(&case, session).into_iter().filter(|turn| !order.contains(turn));
            order.extend(fresh.collect::<Vec<_>>());
        }
        assert!(used(&case) <= budget as u64);
    }

    let expected: Vec<TurnId> = second[..2].iter().chain(&first[..2]).cloned().collect();
    assert_eq!(order[..4], expected[..], "archived before idle, oldest first, never the newest");
    assert!(order.len() > 4, "then the busy session's own");
    for (session, newest) in [(&idle, &first[2]), (&archived, &second[2])] {
        assert!(
            plan(&case, session, &UndoTarget::Turn(newest.clone())).is_ok(),
            "the newest stays"
        );
    }
    assert!(case.undo(&busy, &UndoTarget::Last).is_complete());
    let operations =
        case.engine.store().read(&ctx(), |r| r.operations().list(&idle)).expect("reads");
    assert!(!operations.is_empty());
    for operation in operations {
        assert_eq!(operation.kind, OperationKind::Expire);
        assert!(operation.done.is_some(), "its bytes are gone");
    }
    assert!(handle(&case).reader().verify_objects().expect("reads").damaged.is_empty());
}

/// Proves R13.
#[test]
fn undo_range_with_expired_turn_is_rejected() {
    let (case, mut noise) = (fixture_with_budget(5 * SIZE), IncompressibleText::new());
    let session = case.session("ses_a", None);
    case.put("f", Some("before"));
    let turns: Vec<TurnId> =
        (0..8).map(|_| case.turn(&session, "f", Some(&noise.text(SIZE)))).collect();
    let gone = expired(&case, &session);
    assert!(gone.contains(&turns[0]) && !gone.contains(&turns[7]));
    let standing = case.read("f");

    for which in [UndoTarget::Turn(turns[0].clone()), UndoTarget::From(turns[0].clone())] {
        match plan(&case, &session, &which) {
            Err(EngineError::UndoExpired { session: of, turn, at, paths }) => {
                assert_eq!(paths, ["f".parse().expect("a path")]);
                assert_eq!((of, turn, at), (session.clone(), turns[0].clone(), NOW));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(case.read("f"), standing, "nothing was taken half");
    let oldest = turns.iter().find(|turn| !gone.contains(turn)).expect("some stand");
    assert!(case.undo(&session, &UndoTarget::From(oldest.clone())).is_complete());
    assert_ne!(case.read("f"), standing);
    case.redo(&session);
    assert_eq!(case.read("f"), standing);
}

/// Proves R13.
#[test]
fn plan_with_turn_expired_before_apply_is_rejected() {
    let (case, mut noise) = (fixture_with_budget(5 * SIZE), IncompressibleText::new());
    let session = case.session("ses_a", None);
    let first = case.turn(&session, "f", Some(&noise.text(SIZE)));
    case.turn(&session, "g", Some("small"));
    let plan = case.plan(&session, &UndoTarget::Turn(first.clone()));
    for _ in 0..6 {
        case.turn(&session, "g", Some(&noise.text(SIZE)));
    }
    assert!(expired(&case, &session).contains(&first));

    let refused = case.engine.history().apply(&ctx(), &plan);

    assert!(matches!(refused, Err(EngineError::UndoExpired { .. })), "{refused:?}");
    assert!(case.read("f").is_some());
    let open = case
        .engine
        .store()
        .read(&ctx(), |r| r.operations().sessions_in_operation())
        .expect("reads");
    assert!(open.is_empty(), "and nothing is stuck");
}

/// Proves R13.
#[test]
fn call_over_budget_is_refused_without_eviction() {
    let (case, mut noise) = (fixture_with_budget(5 * SIZE), IncompressibleText::new());
    let session = case.session("ses_a", None);
    let turns: Vec<TurnId> =
        (0..3).map(|_| case.turn(&session, "f", Some(&noise.text(SIZE)))).collect();
    case.put("big", Some(&noise.text(9 * SIZE)));
    let turn = case.begin(&session);

    let refused = case.engine.tool_calls().open_named(&ctx(), &turn, None, &[PathBuf::from("big")]);

    let Err(EngineError::OverBudget(over)) = refused else { panic!("it fits") };
    assert_eq!(over.limit, 5 * SIZE as u64);
    assert!(over.needed > 6 * SIZE as u64 && over.used > 0, "{over:?}");
    assert!(expired(&case, &session).is_empty(), "what would not help does not go");
    case.edit(&turn, "small", Some("it fits"));
    case.end(&turn);
    assert!(case.undo(&session, &UndoTarget::From(turns[0].clone())).is_complete());
    assert_eq!(case.read("f"), None);
}

/// Proves R13.
#[test]
fn best_effort_runs_call_uncovered() {
    let (mut case, mut noise) = (fixture_with_budget(5 * SIZE), IncompressibleText::new());
    let mut chosen = settings(&case, 5 * SIZE);
    chosen.over_budget_policy = OverBudgetPolicy::RunUncovered;
    case.engine = Engine::open(chosen, NOW).expect("opens");
    let session = case.session("ses_a", None);
    case.put("big", Some(&noise.text(9 * SIZE)));
    let turn = case.begin(&session);
    let call = case.engine.tool_calls().open_named(&ctx(), &turn, None, &[PathBuf::from("big")]);
    let call = call.expect("it runs");
    assert!(!call.is_covered() && call.is_over_budget());
    case.put("big", Some("smaller"));
    let closed = case.engine.tool_calls().close(&ctx(), &turn, &call).expect("closes");
    assert_eq!((closed.not_covered, closed.changes.len()), (1, 1));
    let window = case.shell(&turn, || case.put("other", Some("x")));
    case.end(&turn);

    assert_eq!(window.not_covered, 0, "what fits is covered again");
    let report = case.undo(&session, &UndoTarget::Last);
    assert!(!report.is_complete());
    let (_, path, why) = &report.not_covered[0];
    assert_eq!((path.to_string().as_str(), why.as_str()), ("big", "over_budget"));
    assert_eq!(case.read("big").as_deref(), Some("smaller"), "never guessed");
    assert_eq!(case.read("other"), None);
}

/// Proves R13 and R19: a command that ran without captures is named, and nothing is called undone.
#[test]
fn lost_window_is_reported_and_keeps_the_head() {
    let (mut case, mut noise) = (fixture_with_budget(5 * SIZE), IncompressibleText::new());
    let mut chosen = settings(&case, 5 * SIZE);
    chosen.over_budget_policy = OverBudgetPolicy::RunUncovered;
    case.engine = Engine::open(chosen, NOW).expect("opens");
    let session = case.session("ses_a", None);
    case.put("big", Some(&noise.text(9 * SIZE)));
    let turn = case.begin(&session);
    case.shell(&turn, || case.put("other", Some("x")));
    case.end(&turn);

    let report = case.undo(&session, &UndoTarget::Last);

    let lost: Vec<_> = report.lost.iter().map(|it| (&it.turn, it.missing)).collect();
    assert_eq!(lost, [(&turn.id, MissingCapture::Before)]);
    assert!(report.without_effect && !report.is_complete(), "{report:?}");
    let head = case.engine.store().read(&ctx(), |r| r.sessions().head(&session)).expect("reads");
    assert_eq!(head, None);
}

/// Proves R40.
#[test]
fn fork_keeps_undo_available_at_fork_time() {
    let (case, mut noise) = (fixture_with_budget(8 * SIZE), IncompressibleText::new());
    let session = case.session("ses_a", None);
    let mut turns: Vec<TurnId> =
        (0..3).map(|_| case.turn(&session, "f", Some(&noise.text(SIZE)))).collect();
    let early = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");
    let other = case.session("ses_b", None);
    let mut before = Vec::new();
    while expired(&case, &session).is_empty() {
        before.push(case.turn(&other, "g", Some(&noise.text(SIZE))));
        assert!(before.len() < 20, "something must give way");
    }
    turns.retain(|turn| expired(&case, &session).contains(turn));
    let late = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");

    assert_eq!(expired(&case, &late.id).len(), turns.len(), "the copy says so too");
    let copied = case.engine.store().read(&ctx(), |r| r.turns().list(&late.id)).expect("reads");
    let refused = plan(&case, &late.id, &UndoTarget::Turn(copied[0].id.clone()));
    assert!(matches!(refused, Err(EngineError::UndoExpired { .. })), "{refused:?}");
    let copied = case.engine.store().read(&ctx(), |r| r.turns().list(&early.id)).expect("reads");
    if expired(&case, &early.id).is_empty() {
        assert!(case.undo(&early.id, &UndoTarget::From(copied[0].id.clone())).is_complete());
        assert_eq!(case.read("f"), None);
    }
    assert!(handle(&case).reader().verify_objects().expect("reads").damaged.is_empty());
}

/// Proves R13.
#[test]
fn child_changes_in_newest_parent_turn_are_protected() {
    let (case, mut noise) = (fixture_with_budget(8 * SIZE), IncompressibleText::new());
    let parent = case.session("ses_parent", None);
    let turn = case.begin(&parent);
    let child = case.session("ses_child", Some("ses_parent"));
    for _ in 0..3 {
        case.turn(&child, "f", Some(&noise.text(SIZE)));
    }
    case.end(&turn);
    let other = case.session("ses_other", None);
    for _ in 0..10 {
        case.turn(&other, "g", Some(&noise.text(SIZE)));
    }

    assert!(expired(&case, &child).is_empty());
    assert!(!expired(&case, &other).is_empty(), "the others gave way");
    assert!(case.undo(&parent, &UndoTarget::Last).is_complete());
    assert_eq!(case.read("f"), None);
}

/// A turn of one edit in another directory than that of the case.
fn turn_in(engine: &Engine, dir: &Path, session: &SessionId, nth: u32, text: &str) {
    let prompt = crate::engine_fixture::prompt(session, &format!("{session}{nth}"));
    let turn = engine.turns().begin(&ctx(), prompt).expect("begins");
    let call =
        engine.tool_calls().open_named(&ctx(), &turn, None, &["f".into()]).expect("there is room");
    fs_err::write(dir.join("f"), text).expect("written");
    engine.tool_calls().close(&ctx(), &turn, &call).expect("closes");
    let done = turnstone_core::turn::TurnOutcome::Completed;
    engine.turns().end(&ctx(), &turn, done, None).expect("ends");
}

fn session_in(engine: &Engine, dir: &Path, id: &str) -> SessionId {
    let session = serde_json::json!({"id": id, "slug": "calm-otter", "projectID": "p1",
        "directory": dir, "title": "T", "version": "1", "time": {"created": 1, "updated": 1}});
    let session: turnstone_core::model::Session = serde_json::from_value(session).expect("session");
    let made = session.clone();
    engine.store().write(&ctx(), move |tx| tx.sessions().create(&made)).wait().expect("made");
    session.id
}

/// Proves R13.
#[test]
fn total_budget_evicts_longest_idle_in_any_store() {
    // Alone, and while another process keeps the store of the other directory.
    for is_kept in [false, true] {
        let (case, mut noise) = (EngineFixture::new(), IncompressibleText::new());
        let dirs = ["one", "two"].map(|name| case.dir.path().join(name));
        dirs.iter().for_each(|dir| fs_err::create_dir(dir).expect("made"));
        let mut chosen = settings(&case, 100 * SIZE);
        chosen.snapshot_options.budget.total = 10 * SIZE as u64;
        let open = || Engine::open(chosen.clone(), NOW).expect("opens");
        let (first, second) = (open(), open());
        let one = session_in(&first, &dirs[0], "ses_one");
        let two = session_in(&first, &dirs[1], "ses_two");
        for nth in 0..5 {
            turn_in(&first, &dirs[0], &one, nth, &noise.text(SIZE));
        }
        let kept = is_kept.then_some(first);

        for nth in 0..6 {
            turn_in(&second, &dirs[1], &two, nth, &noise.text(SIZE));
        }

        let gone = |id| {
            second.store().read(&ctx(), |r| r.undo_expiry().expired_turns(id)).expect("reads").len()
        };
        assert!((1..5).contains(&gone(&one)), "{} of the idle one, not its newest", gone(&one));
        let used = |dir| {
            let handle = second.snapshots().open(dir, NOW).expect("opens");
            assert!(handle.reader().verify_objects().expect("reads").damaged.is_empty());
            handle.reader().usage().expect("reads").bytes
        };
        assert!(used(&dirs[0]) + used(&dirs[1]) <= 10 * SIZE as u64);
        drop(kept);
        for (id, dir) in [(&one, &dirs[0]), (&two, &dirs[1])] {
            let before = fs_err::read(dir.join("f")).expect("there");
            let plan =
                second.history().plan_undo(&ctx(), id, &UndoTarget::Last, &UndoOptions::default());
            assert!(
                second.history().apply(&ctx(), &plan.expect("a plan")).expect("done").is_complete()
            );
            assert_ne!(fs_err::read(dir.join("f")).expect("there"), before, "the newest stands");
        }
    }
}

/// Proves R13.
#[test]
fn unreachable_store_is_skipped_by_eviction() {
    let (case, mut noise) = (EngineFixture::new(), IncompressibleText::new());
    let dirs = ["one", "two"].map(|name| case.dir.path().join(name));
    dirs.iter().for_each(|dir| fs_err::create_dir(dir).expect("made"));
    let mut chosen = settings(&case, 100 * SIZE);
    chosen.snapshot_options.budget.total = 10 * SIZE as u64;
    let engine = Engine::open(chosen.clone(), NOW).expect("opens");
    let one = session_in(&engine, &dirs[0], "ses_one");
    let two = session_in(&engine, &dirs[1], "ses_two");
    for nth in 0..4 {
        turn_in(&engine, &dirs[0], &one, nth, &noise.text(SIZE));
    }
    // Its directory is away, as on a disk that is not there today.
    drop(engine);
    let engine = Engine::open(chosen, NOW).expect("opens");
    fs_err::rename(&dirs[0], case.dir.path().join("away")).expect("moved");

    for nth in 0..8 {
        turn_in(&engine, &dirs[1], &two, nth, &noise.text(SIZE));
    }

    let gone = |id| {
        engine.store().read(&ctx(), |r| r.undo_expiry().expired_turns(id)).expect("reads").len()
    };
    assert_eq!(gone(&one), 0);
    assert!(gone(&two) > 0, "its own turns gave way");
}
