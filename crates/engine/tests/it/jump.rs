//! Jumps: any point, any branch; checkpoints.

use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_core::time::SessionSeq;
use turnstone_engine::{
    EngineError, OperationReport, SessionPoint, UndoAspect, UndoOptions, UndoPlan, UndoTarget,
};
use turnstone_store::StoreError;

use crate::engine_fixture::{EngineFixture, ctx};

fn plan(case: &EngineFixture, session: &SessionId, point: &SessionPoint) -> UndoPlan {
    case.engine
        .history()
        .plan_jump(&ctx(), session, point, &UndoOptions::default())
        .expect("a plan")
}

fn jump(case: &EngineFixture, session: &SessionId, point: &SessionPoint) -> OperationReport {
    case.engine.history().apply(&ctx(), &plan(case, session, point)).expect("applied")
}

fn turns(case: &EngineFixture, session: &SessionId) -> Vec<TurnId> {
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(session)).expect("reads");
    turns.into_iter().map(|turn| turn.id).collect()
}

/// Two turns, a branch with a third in the place of the second.
fn branched() -> (EngineFixture, SessionId) {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one")));
    case.run_turn(&session, "b", ("f", Some("two")));
    case.undo(&session, &UndoTarget::Last);
    case.run_turn(&session, "c", ("f", Some("three")));
    (case, session)
}

#[test]
fn jump_reaches_every_turn_and_plan_changes_nothing() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    for (name, content) in [("a", "one"), ("b", "two"), ("c", "three")] {
        case.run_turn(&session, name, ("f", Some(content)));
    }
    case.put("mine", Some("mine"));
    let turns = turns(&case, &session);
    let dry = plan(&case, &session, &SessionPoint::Before(turns[0].clone()));
    assert_eq!(dry.roots[0].plan.steps.len(), 1);
    assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("three"), None));

    for (point, content, head) in [
        (SessionPoint::Before(turns[0].clone()), None, Some("a")),
        (SessionPoint::After(turns[1].clone()), Some("two"), Some("c")),
        (SessionPoint::After(turns[0].clone()), Some("one"), Some("b")),
        (SessionPoint::After(turns[2].clone()), Some("three"), None),
        (SessionPoint::Before(turns[1].clone()), Some("one"), Some("b")),
    ] {
        let report = jump(&case, &session, &point);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(case.read("f").as_deref(), content, "{point:?}");
        assert_eq!(case.head(&session).map(|head| head.0).as_deref(), head, "{point:?}");
        assert_eq!(case.read("mine").as_deref(), Some("mine"));
    }
    case.redo(&session);
    assert_eq!(case.read("f").as_deref(), Some("two"), "redo goes on from where a jump led");
    case.assert_consistent();
}

/// Proves R19.
#[test]
fn jump_reaches_hidden_branch_and_back() {
    let (case, session) = branched();
    assert_eq!(case.messages(&session), ["a", "aa", "c", "ca"]);
    let turns = turns(&case, &session);
    let usage =
        || case.engine.store().read(&ctx(), |r| r.sessions().usage(&session)).expect("reads");
    let before = usage();

    let there = SessionPoint::After(turns[1].clone());
    let report = jump(&case, &session, &there);

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.messages(&session), ["a", "aa", "b", "ba"]);
    assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("two"), None));
    assert_eq!(usage(), before, "as many steps as the other branch");
    case.assert_consistent();
    // What was restored can be undone and redone as before.
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(case.read("f").as_deref(), Some("one"));
    case.redo(&session);
    assert_eq!(case.read("f").as_deref(), Some("two"));

    jump(&case, &session, &SessionPoint::After(turns[2].clone()));
    assert_eq!(case.messages(&session), ["a", "aa", "c", "ca"]);
    assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("three"), None));
    // A point of both branches is reached without leaving this one.
    jump(&case, &session, &SessionPoint::Before(turns[1].clone()));
    assert_eq!(case.messages(&session), ["a", "aa", "c", "ca"]);
    assert_eq!(case.head(&session).map(|head| head.0).as_deref(), Some("c"));
    assert_eq!(case.read("f").as_deref(), Some("one"));
    case.assert_consistent();
}

#[test]
fn interrupted_branch_jump_finishes_once() {
    for point in ["engine::branch_hides", "engine::line_shown", "engine::root_applied"] {
        let scenario = fail::FailScenario::setup();
        let (case, session) = branched();
        let there = SessionPoint::After(turns(&case, &session)[1].clone());
        let plan = plan(&case, &session, &there);
        fail::cfg(point, "return").expect("set");
        case.engine.history().apply(&ctx(), &plan).expect_err("cut off");
        fail::remove(point);
        let case = case.reopen();
        assert_eq!(
            case.engine.maintenance().recover_all(&ctx()).expect("recovers").finished.len(),
            1,
            "{point}"
        );
        assert_eq!(case.messages(&session), ["a", "aa", "b", "ba"], "{point}");
        assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("two"), None));
        case.assert_consistent();
        scenario.teardown();
    }
}

/// Proves R25.
#[test]
fn every_boundary_is_a_jump_target() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one")));
    case.run_turn(&session, "b", ("g", Some("two")));
    let all =
        case.engine.store().read(&ctx(), |r| r.history().boundaries(&session, SessionSeq(0), 100));
    let all = all.expect("reads");
    assert!(all.len() >= 10, "turns begin, start and end, steps too: {}", all.len());
    let changes =
        case.engine.store().read(&ctx(), |r| r.change_sets().list(&session)).expect("reads");
    for boundary in all.iter().chain(all.iter().rev()) {
        let report = jump(&case, &session, &SessionPoint::Seq(boundary.seq));
        assert!(report.is_complete(), "{report:?}");
        let stood = |nth: usize| changes[nth].opened < boundary.cursor;
        assert_eq!(case.read("f").is_some(), stood(0), "at {boundary:?}");
        assert_eq!(case.read("g").is_some(), stood(1), "at {boundary:?}");
    }
    case.assert_consistent();
}

#[test]
fn checkpoint_name_resolves_to_newest() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one")));
    case.engine.history().checkpoints().create(&ctx(), &session, "good").expect("named");
    case.run_turn(&session, "b", ("f", Some("two")));
    let named = case.engine.history().checkpoints().list(&ctx(), &session).expect("reads");
    assert_eq!(named.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["good"]);

    jump(&case, &session, &SessionPoint::Checkpoint("good".to_owned()));
    assert_eq!(case.read("f").as_deref(), Some("one"));
    assert_eq!(case.head(&session).map(|head| head.0).as_deref(), Some("b"));

    let report = jump(&case, &session, &SessionPoint::After(turns(&case, &session)[1].clone()));
    case.engine.history().checkpoints().create(&ctx(), &session, "good").expect("named again");
    case.undo(&session, &UndoTarget::Last);
    jump(&case, &session, &SessionPoint::Checkpoint("good".to_owned()));
    assert_eq!(case.read("f").as_deref(), Some("two"));
    // Operations are points as well, and the log has all of them.
    jump(&case, &session, &SessionPoint::Operation(report.operation));
    let operations =
        case.engine.store().read(&ctx(), |r| r.operations().list(&session)).expect("reads");
    let jumps = operations.iter().filter(|it| it.kind == OperationKind::Jump).count();
    assert_eq!((jumps, operations.len()), (4, 7));
}

#[test]
fn jump_scope_files_or_conversation() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one")));
    let start = SessionPoint::Before(turns(&case, &session)[0].clone());
    let go = |scope| {
        let options = UndoOptions { scope, ..UndoOptions::default() };
        let plan =
            case.engine.history().plan_jump(&ctx(), &session, &start, &options).expect("a plan");
        case.engine.history().apply(&ctx(), &plan).expect("applied");
        (case.read("f").is_some(), case.head(&session).is_some())
    };
    assert_eq!(go(UndoAspect::Files), (false, false));
    case.engine.history().reverts().unrevert(&ctx(), &session).expect("reads");
    assert_eq!(go(UndoAspect::Conversation), (false, true));
}

/// Proves R45.
#[test]
fn unknown_point_and_jump_during_turn_are_rejected() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one")));
    for point in [
        SessionPoint::Checkpoint("no".to_owned()),
        SessionPoint::Seq(SessionSeq(9999)),
        SessionPoint::Seq(SessionSeq(1)),
    ] {
        let none =
            case.engine.history().plan_jump(&ctx(), &session, &point, &UndoOptions::default());
        assert!(matches!(none, Err(EngineError::NoPoint { .. })), "{none:?}");
    }
    let plan = plan(&case, &session, &SessionPoint::Before(turns(&case, &session)[0].clone()));
    let turn = case.begin_prompted_turn(&session, "b");
    let busy = case.engine.history().apply(&ctx(), &plan);
    assert!(matches!(busy, Err(EngineError::Store(StoreError::Busy(_)))), "{busy:?}");
    let busy = case.engine.history().checkpoints().create(&ctx(), &session, "now");
    assert!(matches!(busy, Err(EngineError::Store(StoreError::Busy(_)))), "{busy:?}");
    assert_eq!(case.read("f").as_deref(), Some("one"));
    case.end(&turn);
}

#[test]
fn removed_checkpoint_point_stays_reachable() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.turn(&session, "f", Some("one"));
    for name in ["a", "b", "a"] {
        case.engine.history().checkpoints().create(&ctx(), &session, name).expect("named");
    }
    let names = |case: &EngineFixture| {
        let found = case.engine.history().checkpoints().list(&ctx(), &session).expect("reads");
        found.into_iter().map(|it| it.name).collect::<Vec<_>>()
    };
    let gone = case.engine.history().checkpoints().remove(&ctx(), &session, "a").expect("given up");
    assert_eq!((gone.len(), names(&case)), (2, vec!["b".to_owned()]));
    let options = UndoOptions::default();
    let plan =
        |point: &SessionPoint| case.engine.history().plan_jump(&ctx(), &session, point, &options);
    assert!(matches!(
        plan(&SessionPoint::Checkpoint("a".into())),
        Err(EngineError::NoPoint { .. })
    ));
    plan(&SessionPoint::Operation(gone[0].operation.clone())).expect("a plan");
    plan(&SessionPoint::After(turn)).expect("a plan");
    let again = case.engine.history().checkpoints().remove(&ctx(), &session, "a");
    assert!(matches!(again, Err(EngineError::NoPoint { .. })), "{again:?}");
    case.engine.history().checkpoints().create(&ctx(), &session, "a").expect("named");
    assert_eq!(names(&case), ["b", "a"], "a name may be used again");
}
