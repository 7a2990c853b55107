//! Undo is exact: it reports what it could not do, redo restores just what an undo changed, and it takes
//! nothing it cannot read for nothing.

use serde_json::json;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::operation::{HeadTarget, OperationKind};
use turnstone_engine::{
    EngineError, OperationReport, SessionPoint, UndoAspect, UndoOptions, UndoTarget,
};
use turnstone_store::{FinishedOperation, NewOperation, Tx};

use crate::engine_fixture::{EngineFixture, ctx};

const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

fn id(text: &str) -> OperationId {
    text.parse().expect("an id")
}

/// An operation with an invalid plan; done, unless the test needs an open one.
fn put_unreadable_operation(
    case: &EngineFixture,
    session: &SessionId,
    kind: OperationKind,
    is_over: bool,
) {
    let (session, id) = (session.clone(), id("opn_strange"));
    let new = NewOperation { id: id.clone(), kind, plan: json!({"turns": "all of them"}) };
    let report = json!({"whole": "{"});
    let done = FinishedOperation { id, head: HeadTarget::Stay, taken: Vec::new(), report };
    let write = move |tx: &Tx<'_>| {
        tx.operations().plan(&session, &new)?;
        if is_over {
            tx.operations().finish(&session, &done)?;
        }
        Ok(())
    };
    case.engine.store().write(&ctx(), write).wait().expect("written");
}

#[test]
fn unreadable_operation_is_an_error() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("x"));
    case.undo(&session, &UndoTarget::Last);
    put_unreadable_operation(&case, &session, OperationKind::Undo, true);

    let redo = case.engine.history().plan_redo(
        &ctx(),
        &session,
        &UndoTarget::Last,
        &UndoOptions::default(),
    );
    assert!(
        matches!(&redo, Err(EngineError::UnreadableOperation { operation, .. })
        if *operation == id("opn_strange")),
        "{redo:?}"
    );
    let view = case.engine.history().reverts().view(&ctx(), &session);
    assert!(matches!(view, Err(EngineError::UnreadableOperation { .. })), "{view:?}");
    assert_eq!(case.read("f"), None, "nothing was done");
}

/// Proves R3.
#[test]
fn unreadable_operation_inside_window_blocks_undo() {
    let case = EngineFixture::new();
    let (one, two) = (case.session("ses_a", None), case.session("ses_b", None));
    let turn = case.begin(&two);
    case.shell(&turn, || {
        case.put("f", Some("x"));
        put_unreadable_operation(&case, &one, OperationKind::Undo, true);
    });
    case.end(&turn);

    let plan =
        case.engine.history().plan_undo(&ctx(), &two, &UndoTarget::Last, &UndoOptions::default());

    assert!(matches!(plan, Err(EngineError::UnreadableOperation { .. })), "{plan:?}");
}

/// Proves R17.
#[test]
fn unreadable_interrupted_operation_fails_recovery() {
    for kind in [OperationKind::Undo, OperationKind::Branch] {
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        put_unreadable_operation(&case, &session, kind, false);
        for _ in 0..2 {
            let done = case.engine.maintenance().recover_all(&ctx());
            assert!(matches!(done, Err(EngineError::UnreadableOperation { .. })), "{done:?}");
        }
    }
}

#[test]
fn unreadable_checkpoint_is_an_error() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    put_unreadable_operation(&case, &session, OperationKind::Checkpoint, true);
    let named = case.engine.history().checkpoints().list(&ctx(), &session);
    assert!(matches!(named, Err(EngineError::UnreadableOperation { .. })), "{named:?}");
}

#[test]
fn undo_without_effect_keeps_the_head() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    let turn = case.turn(&session, "f", Some(&TEN.replace("5\n", "five\n")));
    case.put("f", Some(&TEN.replace("5\n", "cinq\n")));

    let report = case.undo(&session, &UndoTarget::Last);

    assert!(report.without_effect, "{report:?}");
    assert_eq!(case.head(&session), None, "the conversation stays with the files");
    assert_eq!(case.engine.history().reverts().view(&ctx(), &session).expect("reads"), None);
    let redo = case.engine.history().plan_redo(
        &ctx(),
        &session,
        &UndoTarget::Last,
        &UndoOptions::default(),
    );
    assert!(matches!(redo, Err(EngineError::NothingToRedo(_))), "{redo:?}");
    let operations =
        case.engine.store().read(&ctx(), |r| r.operations().list(&session)).expect("reads");
    assert_eq!(operations.len(), 1, "it is recorded");

    // The conversation alone can be asked for.
    let options = UndoOptions { scope: UndoAspect::Conversation, ..UndoOptions::default() };
    let plan = case
        .engine
        .history()
        .plan_undo(&ctx(), &session, &UndoTarget::Last, &options)
        .expect("a plan");
    assert!(!case.engine.history().apply(&ctx(), &plan).expect("applied").without_effect);
    assert_eq!(case.head(&session), Some(("1".to_owned(), None)));
    assert_eq!(report.turns, [turn]);
}

#[test]
fn revert_without_effect_keeps_the_session() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin_prompted_turn(&session, "a");
    case.edit(&turn, "f", Some("by the turn"));
    case.end(&turn);
    case.put("f", Some("by a person"));

    let message = "msg_a".parse().expect("an id");
    let report =
        case.engine.history().reverts().revert(&ctx(), &session, &message, None).expect("answers");

    assert!(report.expect("there is such a boundary").without_effect);
    assert_eq!(case.engine.history().reverts().view(&ctx(), &session).expect("reads"), None);
    assert_eq!(case.read("f").as_deref(), Some("by a person"));
}

/// A file that a person has put back is not what the undo did: with it alone, nothing was undone.
#[test]
fn one_restored_file_moves_the_head_and_an_unchanged_one_does_not() {
    for put_back in [false, true] {
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        case.put("f", Some("old"));
        let turn = case.begin(&session);
        case.edit(&turn, "f", Some("new"));
        case.edit(&turn, "g", Some("new"));
        case.end(&turn);
        case.put("g", Some("by a person"));
        if put_back {
            case.put("f", Some("old"));
        }

        let report = case.undo(&session, &UndoTarget::Last);

        assert!(report.without_effect == put_back && !report.is_complete(), "{report:?}");
        let head = (!put_back).then(|| ("1".to_owned(), None));
        assert_eq!(case.head(&session), head);
    }
}

/// Proves R19.
#[test]
fn jump_without_effect_stays_on_its_timeline() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let first = case.turn(&session, "f", Some("one"));
    case.undo(&session, &UndoTarget::Last);
    case.turn(&session, "g", Some("two"));
    case.put("f", Some("by a person"));
    case.put("g", Some("by a person"));
    let before = case.messages(&session);

    let plan = case
        .engine
        .history()
        .plan_jump(&ctx(), &session, &SessionPoint::After(first), &UndoOptions::default())
        .expect("a plan");
    assert!(plan.switch.is_some(), "the point is on another line");
    let report = case.engine.history().apply(&ctx(), &plan).expect("applied");

    assert!(report.without_effect, "{report:?}");
    assert_eq!((case.messages(&session), case.head(&session)), (before, None));
}

#[test]
fn redo_skips_what_human_had_reverted_before_undo() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n").replace("9\n", "nine\n")));
    // The person puts one of the two changes back, and makes one of their own.
    let found = TEN.replace("2\n", "two\n").replace("5\n", "FIVE\n");
    case.put("f", Some(&found));

    assert!(case.undo(&session, &UndoTarget::Last).is_complete());
    assert_eq!(case.read("f"), Some(TEN.replace("5\n", "FIVE\n")));
    assert!(case.redo(&session).is_complete());

    assert_eq!(case.read("f"), Some(found), "just what the undo had found");
    // And back again, once more from what the turn did.
    assert!(case.undo(&session, &UndoTarget::Last).is_complete());
    assert_eq!(case.read("f"), Some(TEN.replace("5\n", "FIVE\n")));
}

#[test]
fn redo_keeps_human_edits_made_after_undo() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n").replace("9\n", "nine\n")));
    case.put("f", Some(&TEN.replace("2\n", "two\n")));
    case.undo(&session, &UndoTarget::Last);
    case.put("f", Some(&TEN.replace("6\n", "SIX\n")));

    assert!(case.redo(&session).is_complete());
    assert_eq!(case.read("f"), Some(TEN.replace("2\n", "two\n").replace("6\n", "SIX\n")));

    case.undo(&session, &UndoTarget::Last);
    case.put("f", Some(&TEN.replace("2\n", "zwei\n")));
    let report = case.redo(&session);
    assert!(report.without_effect, "{report:?}");
    assert_eq!(case.read("f"), Some(TEN.replace("2\n", "zwei\n")));
}

/// Proves R4.
#[test]
fn unrevert_restores_what_single_undos_took() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n").replace("4\n", "four\n")));
    // The person takes the second half of the first turn away before the second turn.
    let kept = TEN.replace("2\n", "two\n");
    case.put("f", Some(&kept));
    case.turn(&session, "f", Some(&kept.replace("9\n", "nine\n")));
    case.undo(&session, &UndoTarget::Last);
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(case.read("f").as_deref(), Some(TEN));

    let report = case
        .engine
        .history()
        .reverts()
        .unrevert(&ctx(), &session)
        .expect("unreverts")
        .expect("was away");

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f"), Some(kept.replace("9\n", "nine\n")));
    assert_eq!(case.head(&session), None);
}

#[test]
fn interrupted_undo_without_effect_stays_without_effect() {
    for point in ["engine::operation_planned", "engine::root_applied"] {
        let scenario = fail::FailScenario::setup();
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        case.turn(&session, "f", Some("by the turn"));
        case.put("f", Some("by a person"));
        let plan = case.plan(&session, &UndoTarget::Last);
        fail::cfg(point, "return").expect("set");
        case.engine.history().apply(&ctx(), &plan).expect_err("cut off");
        fail::remove(point);

        let case = case.reopen();
        assert_eq!(
            case.engine.maintenance().recover_all(&ctx()).expect("recovers").finished.len(),
            1,
            "{point}"
        );
        assert_eq!(case.head(&session), None, "{point}");
        assert_eq!(case.read("f").as_deref(), Some("by a person"));
        scenario.teardown();
    }
}

/// Proves R17.
#[test]
fn interrupted_redo_restores_what_undo_took() {
    for point in ["engine::operation_planned", "engine::root_applied"] {
        let scenario = fail::FailScenario::setup();
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        case.put("f", Some(TEN));
        case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n").replace("9\n", "nine\n")));
        let found = TEN.replace("2\n", "two\n");
        case.put("f", Some(&found));
        case.undo(&session, &UndoTarget::Last);
        let options = UndoOptions::default();
        let plan = case
            .engine
            .history()
            .plan_redo(&ctx(), &session, &UndoTarget::Last, &options)
            .expect("a plan");
        fail::cfg(point, "return").expect("set");
        case.engine.history().apply(&ctx(), &plan).expect_err("cut off");
        fail::remove(point);

        let case = case.reopen();
        assert_eq!(
            case.engine.maintenance().recover_all(&ctx()).expect("recovers").finished.len(),
            1,
            "{point}"
        );
        assert_eq!((case.read("f"), case.head(&session)), (Some(found), None), "{point}");
        scenario.teardown();
    }
}

/// Two turns that change different lines of a file, and a person who puts a part of the second back
/// and edits another line, before one undo takes both.
fn undo_two_turns_together(case: &EngineFixture) -> (SessionId, [TurnId; 2], String) {
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    let one = TEN.replace("1\n2\n", "1\ntwo\n");
    let first = case.turn(&session, "f", Some(&one));
    let two = one.replace("6\n", "six\n").replace("9\n", "nine\n");
    let second = case.turn(&session, "f", Some(&two));
    let found = two.replace("nine\n", "9\n").replace("4\n", "FOUR\n");
    case.put("f", Some(&found));
    let report = case.undo(&session, &UndoTarget::From(first.clone()));
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f"), Some(TEN.replace("4\n", "FOUR\n")));
    (session, [first, second], found)
}

fn redo(case: &EngineFixture, session: &SessionId, turn: &TurnId) -> OperationReport {
    let (which, options) = (UndoTarget::Turn(turn.clone()), UndoOptions::default());
    let plan = case.engine.history().plan_redo(&ctx(), session, &which, &options).expect("a plan");
    case.engine.history().apply(&ctx(), &plan).expect("applied")
}

/// Proves R4.
#[test]
fn redo_of_one_turn_restores_its_share() {
    let with_first = TEN.replace("1\n2\n", "1\ntwo\n").replace("4\n", "FOUR\n");
    let with_second = TEN.replace("6\n", "six\n").replace("4\n", "FOUR\n");
    for (nth, expected) in [(0, with_first), (1, with_second)] {
        let case = EngineFixture::new();
        let (session, turns, found) = undo_two_turns_together(&case);

        let report = redo(&case, &session, &turns[nth]);

        assert!(report.is_complete(), "{report:?}");
        assert_eq!(case.read("f"), Some(expected), "not the part the person had put back");
        let report = redo(&case, &session, &turns[1 - nth]);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(case.read("f"), Some(found), "and with the other one all of it");
    }
}

/// Proves R17.
#[test]
fn interrupted_redo_of_one_turn_keeps_human_edits() {
    for point in ["engine::operation_planned", "engine::root_applied"] {
        let scenario = fail::FailScenario::setup();
        let case = EngineFixture::new();
        let (session, turns, found) = undo_two_turns_together(&case);
        case.put("f", Some(&TEN.replace("4\n", "FOUR\n").replace("10\n", "TEN\n")));
        let (which, options) = (UndoTarget::Turn(turns[1].clone()), UndoOptions::default());
        let plan =
            case.engine.history().plan_redo(&ctx(), &session, &which, &options).expect("a plan");
        fail::cfg(point, "return").expect("set");
        case.engine.history().apply(&ctx(), &plan).expect_err("cut off");
        fail::remove(point);

        let case = case.reopen();
        assert_eq!(
            case.engine.maintenance().recover_all(&ctx()).expect("recovers").finished.len(),
            1,
            "{point}"
        );
        let second = TEN.replace("6\n", "six\n").replace("4\n", "FOUR\n");
        assert_eq!(case.read("f"), Some(second.replace("10\n", "TEN\n")), "{point}");
        assert!(redo(&case, &session, &turns[0]).is_complete());
        assert_eq!(case.read("f"), Some(found.replace("10\n", "TEN\n")), "{point}");
        scenario.teardown();
    }
}

#[test]
fn redo_skips_turn_human_had_fully_reverted() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    let one = TEN.replace("1\n2\n", "1\ntwo\n");
    let first = case.turn(&session, "f", Some(&one));
    let second = case.turn(&session, "f", Some(&one.replace("9\n", "nine\n")));
    case.put("f", Some(&one));
    assert!(case.undo(&session, &UndoTarget::From(first.clone())).is_complete());
    assert_eq!(case.read("f").as_deref(), Some(TEN));

    redo(&case, &session, &second);
    assert_eq!(case.read("f").as_deref(), Some(TEN), "the undo had taken nothing of it");
    redo(&case, &session, &first);
    assert_eq!(case.read("f"), Some(one));
}

#[test]
fn redo_of_one_turn_matches_its_result_without_edits() {
    for created in [false, true] {
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        if !created {
            case.put("f", Some(TEN));
        }
        let one = TEN.replace("1\n2\n", "1\ntwo\n");
        let first = case.turn(&session, "f", Some(&one));
        let second = case.turn(&session, "f", Some(&one.replace("9\n", "nine\n")));
        assert!(case.undo(&session, &UndoTarget::From(first.clone())).is_complete());

        assert!(redo(&case, &session, &first).is_complete());
        assert_eq!(case.read("f"), Some(one.clone()));
        assert!(redo(&case, &session, &second).is_complete());
        assert_eq!(case.read("f"), Some(one.replace("9\n", "nine\n")));
    }
}
