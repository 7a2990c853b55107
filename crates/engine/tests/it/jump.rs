//! Jumps: any point, any branch; checkpoints.

use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_core::time::Seq;
use turnstone_engine::{EngineError, OperationReport, Point, Scope, UndoOptions, UndoPlan, Which};
use turnstone_store::StoreError;

use crate::support::{Case, ctx};
use crate::talk::mid;

fn plan(case: &Case, session: &SessionId, point: &Point) -> UndoPlan {
    case.engine.plan_jump(&ctx(), session, point, &UndoOptions::default()).expect("a plan")
}

fn jump(case: &Case, session: &SessionId, point: &Point) -> OperationReport {
    case.engine.apply(&ctx(), &plan(case, session, point)).expect("applied")
}

fn turns(case: &Case, session: &SessionId) -> Vec<TurnId> {
    let turns = case.engine.store().read(&ctx(), |r| r.turns(session)).expect("reads");
    turns.into_iter().map(|turn| turn.id).collect()
}

/// Two turns, a branch with a third in the place of the second.
fn branched() -> (Case, SessionId) {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "a", ("f", Some("one")));
    case.exchange(&session, "b", ("f", Some("two")));
    case.undo(&session, &Which::Last);
    case.exchange(&session, "c", ("f", Some("three")));
    (case, session)
}

#[test]
fn a_jump_goes_to_every_turn_and_back_and_a_dry_run_changes_nothing() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    for (name, content) in [("a", "one"), ("b", "two"), ("c", "three")] {
        case.exchange(&session, name, ("f", Some(content)));
    }
    case.put("mine", Some("mine"));
    let turns = turns(&case, &session);
    let dry = plan(&case, &session, &Point::Before(turns[0].clone()));
    assert_eq!(dry.roots[0].plan.steps.len(), 1);
    assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("three"), None));

    for (point, content, head) in [
        (Point::Before(turns[0].clone()), None, Some("a")),
        (Point::After(turns[1].clone()), Some("two"), Some("c")),
        (Point::After(turns[0].clone()), Some("one"), Some("b")),
        (Point::After(turns[2].clone()), Some("three"), None),
        (Point::Before(turns[1].clone()), Some("one"), Some("b")),
    ] {
        let report = jump(&case, &session, &point);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(case.read("f").as_deref(), content, "{point:?}");
        assert_eq!(case.head(&session).map(|head| head.0).as_deref(), head, "{point:?}");
        assert_eq!(case.read("mine").as_deref(), Some("mine"));
    }
    case.redo(&session);
    assert_eq!(case.read("f").as_deref(), Some("two"), "redo goes on from where a jump led");
    case.sound();
}

#[test]
fn a_jump_reaches_a_hidden_branch_and_comes_back_r19() {
    let (case, session) = branched();
    assert_eq!(case.messages(&session), ["a", "aa", "c", "ca"]);
    let turns = turns(&case, &session);
    let usage = || case.engine.store().read(&ctx(), |r| r.session_usage(&session)).expect("reads");
    let before = usage();

    let there = Point::After(turns[1].clone());
    let report = jump(&case, &session, &there);

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.messages(&session), ["a", "aa", "b", "ba"]);
    assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("two"), None));
    assert_eq!(usage(), before, "as many steps as the other branch");
    case.sound();
    // What came back can be taken back and brought back as ever.
    case.undo(&session, &Which::Last);
    assert_eq!(case.read("f").as_deref(), Some("one"));
    case.redo(&session);
    assert_eq!(case.read("f").as_deref(), Some("two"));

    jump(&case, &session, &Point::After(turns[2].clone()));
    assert_eq!(case.messages(&session), ["a", "aa", "c", "ca"]);
    assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("three"), None));
    // A point of both branches is reached without leaving this one.
    jump(&case, &session, &Point::Before(turns[1].clone()));
    assert_eq!(case.messages(&session), ["a", "aa", "c", "ca"]);
    assert_eq!(case.head(&session).map(|head| head.0).as_deref(), Some("c"));
    assert_eq!(case.read("f").as_deref(), Some("one"));
    case.sound();
}

#[test]
fn a_jump_between_branches_that_was_cut_off_is_finished_once() {
    for point in ["engine::branch_hides", "engine::line_shown", "engine::root_applied"] {
        let scenario = fail::FailScenario::setup();
        let (case, session) = branched();
        let there = Point::After(turns(&case, &session)[1].clone());
        let plan = plan(&case, &session, &there);
        fail::cfg(point, "return").expect("set");
        case.engine.apply(&ctx(), &plan).expect_err("cut off");
        fail::remove(point);
        let case = case.reopen();
        assert_eq!(case.engine.recover(&ctx()).expect("recovers").finished.len(), 1, "{point}");
        assert_eq!(case.messages(&session), ["a", "aa", "b", "ba"], "{point}");
        assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("two"), None));
        case.sound();
        scenario.teardown();
    }
}

#[test]
fn every_boundary_is_a_place_to_jump_to_r25() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "a", ("f", Some("one")));
    case.exchange(&session, "b", ("g", Some("two")));
    let all = case.engine.store().read(&ctx(), |r| r.boundaries(&session, Seq(0), 100));
    let all = all.expect("reads");
    assert!(all.len() >= 10, "turns begin, start and end, steps too: {}", all.len());
    let changes = case.engine.store().read(&ctx(), |r| r.changes(&session)).expect("reads");
    for boundary in all.iter().chain(all.iter().rev()) {
        let report = jump(&case, &session, &Point::Seq(boundary.seq));
        assert!(report.is_complete(), "{report:?}");
        let stood = |nth: usize| changes[nth].opened < boundary.cursor;
        assert_eq!(case.read("f").is_some(), stood(0), "at {boundary:?}");
        assert_eq!(case.read("g").is_some(), stood(1), "at {boundary:?}");
    }
    case.sound();
}

#[test]
fn a_checkpoint_is_found_by_its_name_the_newest_first() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "a", ("f", Some("one")));
    case.engine.checkpoint(&ctx(), &session, "good").expect("named");
    case.exchange(&session, "b", ("f", Some("two")));
    let named = case.engine.checkpoints(&ctx(), &session).expect("reads");
    assert_eq!(named.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["good"]);

    jump(&case, &session, &Point::Checkpoint("good".to_owned()));
    assert_eq!(case.read("f").as_deref(), Some("one"));
    assert_eq!(case.head(&session).map(|head| head.0).as_deref(), Some("b"));

    let report = jump(&case, &session, &Point::After(turns(&case, &session)[1].clone()));
    case.engine.checkpoint(&ctx(), &session, "good").expect("named again");
    case.undo(&session, &Which::Last);
    jump(&case, &session, &Point::Checkpoint("good".to_owned()));
    assert_eq!(case.read("f").as_deref(), Some("two"));
    // Operations are points as well, and the log has all of them.
    jump(&case, &session, &Point::Operation(report.operation));
    let operations = case.engine.store().read(&ctx(), |r| r.operations(&session)).expect("reads");
    let jumps = operations.iter().filter(|it| it.kind == OperationKind::Jump).count();
    assert_eq!((jumps, operations.len()), (4, 7));
}

#[test]
fn a_jump_takes_files_or_the_conversation_alone() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "a", ("f", Some("one")));
    let start = Point::Before(turns(&case, &session)[0].clone());
    let go = |scope| {
        let options = UndoOptions { scope, ..UndoOptions::default() };
        let plan = case.engine.plan_jump(&ctx(), &session, &start, &options).expect("a plan");
        case.engine.apply(&ctx(), &plan).expect("applied");
        (case.read("f").is_some(), case.head(&session).is_some())
    };
    assert_eq!(go(Scope::Files), (false, false));
    case.engine.unrevert(&ctx(), &session).expect("reads");
    assert_eq!(go(Scope::Conversation), (false, true));
}

#[test]
fn a_point_that_never_was_is_refused_and_so_is_a_jump_in_a_turn_r45() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "a", ("f", Some("one")));
    for point in [Point::Checkpoint("no".to_owned()), Point::Seq(Seq(9999)), Point::Seq(Seq(1))] {
        let none = case.engine.plan_jump(&ctx(), &session, &point, &UndoOptions::default());
        assert!(matches!(none, Err(EngineError::NoPoint { .. })), "{none:?}");
    }
    let plan = plan(&case, &session, &Point::Before(turns(&case, &session)[0].clone()));
    let turn = case.ask(&session, "b");
    let busy = case.engine.apply(&ctx(), &plan);
    assert!(matches!(busy, Err(EngineError::Store(StoreError::Busy(_)))), "{busy:?}");
    let busy = case.engine.checkpoint(&ctx(), &session, "now");
    assert!(matches!(busy, Err(EngineError::Store(StoreError::Busy(_)))), "{busy:?}");
    assert_eq!(case.read("f").as_deref(), Some("one"));
    case.end(&turn);
    let head = turnstone_core::operation::Head { message: mid("none"), part: None };
    case.engine.plan_head(&ctx(), &session, Some(head)).expect_err("no such message");
}

#[test]
fn a_name_is_given_up_and_the_point_stays_reachable_by_what_happened_there() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    let turn = case.turn(&session, "f", Some("one"));
    for name in ["a", "b", "a"] {
        case.engine.checkpoint(&ctx(), &session, name).expect("named");
    }
    let names = |case: &Case| {
        let found = case.engine.checkpoints(&ctx(), &session).expect("reads");
        found.into_iter().map(|it| it.name).collect::<Vec<_>>()
    };
    let gone = case.engine.remove_checkpoint(&ctx(), &session, "a").expect("given up");
    assert_eq!((gone.len(), names(&case)), (2, vec!["b".to_owned()]));
    let options = UndoOptions::default();
    let plan = |point: &Point| case.engine.plan_jump(&ctx(), &session, point, &options);
    assert!(matches!(plan(&Point::Checkpoint("a".into())), Err(EngineError::NoPoint { .. })));
    plan(&Point::Operation(gone[0].operation.clone())).expect("a plan");
    plan(&Point::After(turn)).expect("a plan");
    let again = case.engine.remove_checkpoint(&ctx(), &session, "a");
    assert!(matches!(again, Err(EngineError::NoPoint { .. })), "{again:?}");
    case.engine.checkpoint(&ctx(), &session, "a").expect("named");
    assert_eq!(names(&case), ["b", "a"], "a name may be used again");
}
