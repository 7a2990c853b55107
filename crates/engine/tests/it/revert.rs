//! OpenCode's revert, unrevert and cleanup: its boundaries, our promises about files.

use serde_json::json;
use turnstone_core::id::SessionId;
use turnstone_engine::{EngineError, OperationReport, UndoOptions, UndoTarget};
use turnstone_store::StoreError;

use crate::conversation_fixture::{assistant, mid, part, pid, user};
use crate::engine_fixture::{EngineFixture, ctx};

fn revert(
    case: &EngineFixture,
    session: &SessionId,
    message: &str,
    part: Option<&str>,
) -> OperationReport {
    let part = part.map(pid);
    let done =
        case.engine.history().reverts().revert(&ctx(), session, &mid(message), part.as_ref());
    done.expect("reverts").expect("a boundary")
}

fn unrevert(case: &EngineFixture, session: &SessionId) -> OperationReport {
    case.engine
        .history()
        .reverts()
        .unrevert(&ctx(), session)
        .expect("unreverts")
        .expect("was reverted")
}

fn whole(message: &str) -> Option<(String, Option<String>)> {
    Some((message.to_owned(), None))
}

/// Three turns; each writes a file of its own, and the same one.
fn three(files: [&str; 3]) -> (EngineFixture, SessionId) {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    for (name, file) in ["c", "b", "a"].into_iter().zip(files) {
        case.run_turn(&session, name, (file, Some(name)));
    }
    (case, session)
}

#[test]
fn revert_moves_head_and_cleanup_hides_messages() {
    let (case, session) = three(["1", "2", "3"]);
    let report = revert(&case, &session, "b", None);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.head(&session), whole("b"));
    assert_eq!(case.messages(&session), ["c", "ca", "b", "ba", "a", "aa"], "still visible");
    assert_eq!((case.read("1").is_some(), case.read("2"), case.read("3")), (true, None, None));

    case.engine.history().reverts().cleanup(&ctx(), &session).expect("cleans");

    assert_eq!(
        (case.messages(&session), case.head(&session)),
        (vec!["c".into(), "ca".into()], None)
    );
    case.engine.history().reverts().cleanup(&ctx(), &session).expect("nothing to do");
    assert_eq!(case.messages(&session).len(), 2, "without a revert nothing happens");
    case.assert_consistent();
}

#[test]
fn reverting_first_message_then_cleanup_leaves_none() {
    let (case, session) = three(["1", "2", "3"]);
    revert(&case, &session, "c", None);
    case.engine.history().reverts().cleanup(&ctx(), &session).expect("cleans");
    assert_eq!(case.messages(&session), Vec::<String>::new());
    assert!(["1", "2", "3"].iter().all(|file| case.read(file).is_none()));
}

#[test]
fn answer_reverts_with_prompt_regardless_of_id_order() {
    let (case, session) = three(["1", "2", "3"]);
    revert(&case, &session, "ba", None);
    assert_eq!(case.head(&session), whole("b"), "ids run backwards here, time does not");
    assert_eq!((case.read("1").is_some(), case.read("2"), case.read("3")), (true, None, None));
}

#[test]
fn second_revert_moves_boundary_with_different_files() {
    let (case, session) = three(["1", "2", "3"]);
    let files = || ["1", "2", "3"].map(|file| case.read(file).is_some());
    let cases = [
        ("c", [false, false, false]),
        ("b", [true, false, false]),
        ("a", [true, true, false]),
        ("c", [false, false, false]),
        ("a", [true, true, false]),
    ];
    for (message, there) in cases {
        assert!(revert(&case, &session, message, None).is_complete());
        assert_eq!((files(), case.head(&session)), (there, whole(message)));
    }
    assert!(unrevert(&case, &session).is_complete());
    assert_eq!((files(), case.head(&session)), ([true; 3], None));
    assert!(
        case.engine.history().reverts().unrevert(&ctx(), &session).expect("reads").is_none(),
        "nothing to undo"
    );
}

#[test]
fn second_revert_moves_boundary_with_same_file() {
    let (case, session) = three(["f", "f", "f"]);
    case.put("mine", Some("mine"));
    for (message, content) in [("c", None), ("b", Some("c")), ("a", Some("b")), ("b", Some("c"))] {
        assert!(revert(&case, &session, message, None).is_complete());
        assert_eq!(case.read("f").as_deref(), content, "before {message}");
    }
    unrevert(&case, &session);
    assert_eq!(case.read("f").as_deref(), Some("a"));
    assert_eq!(case.read("mine").as_deref(), Some("mine"), "nobody's turn made it");
}

/// One turn with two calls and a text between them.
fn calls() -> (EngineFixture, SessionId) {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin_prompted_turn(&session, "u");
    case.answer(&turn, "x", "u");
    case.call(&turn, "x", "x1", ("one", Some("1")));
    case.add(&turn, "x", "x2", json!({"type": "text", "text": "next"}));
    case.call(&turn, "x", "x3", ("two", Some("2")));
    case.end(&turn);
    (case, session)
}

#[test]
fn revert_to_part_keeps_earlier_parts_on_cleanup() {
    let (case, session) = calls();
    revert(&case, &session, "x", Some("x3"));
    assert_eq!(case.head(&session), Some(("x".into(), Some("x3".into()))));
    assert_eq!((case.read("one").is_some(), case.read("two")), (true, None));
    // Further back, and forth again to the same part.
    revert(&case, &session, "x", Some("x1"));
    assert_eq!(case.head(&session), whole("u"), "only a step began before it");
    assert_eq!((case.read("one"), case.read("two")), (None, None));
    revert(&case, &session, "x", Some("x3"));
    assert_eq!((case.read("one").is_some(), case.read("two")), (true, None));

    case.engine.history().reverts().cleanup(&ctx(), &session).expect("cleans");

    let parts: Vec<String> =
        case.outline(&session)[1].parts.iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(parts, ["prt_x0", "prt_x1", "prt_x2"]);
    assert_eq!((case.messages(&session).len(), case.head(&session)), (2, None));
    // The hidden call is not restored by a redo of its turn.
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
    case.undo(&session, &UndoTarget::Last);
    assert_eq!((case.read("one"), case.read("two")), (None, None));
    let which = UndoTarget::Turn(turns[0].id.clone());
    let plan = case.engine.history().plan_redo(&ctx(), &session, &which, &UndoOptions::default());
    case.engine.history().apply(&ctx(), &plan.expect("a plan")).expect("applied");
    assert_eq!((case.read("one").is_some(), case.read("two")), (true, None));
    case.assert_consistent();
}

/// Proves R19.
#[test]
fn undo_and_redo_continue_from_part_boundary() {
    let (case, session) = calls();
    revert(&case, &session, "x", Some("x3"));
    case.redo(&session);
    assert_eq!((case.read("two").is_some(), case.head(&session)), (true, None));
    revert(&case, &session, "x", Some("x3"));
    case.undo(&session, &UndoTarget::Last);
    assert_eq!((case.read("one"), case.head(&session)), (None, whole("u")));
}

#[test]
fn single_call_or_answer_can_be_undone() {
    let (case, session) = calls();
    assert!(case.undo(&session, &UndoTarget::Part(pid("x1"))).is_complete());
    assert_eq!((case.read("one"), case.read("two").is_some()), (None, true));
    assert_eq!(case.head(&session), None, "the conversation stays");
    case.undo(&session, &UndoTarget::Message(mid("x")));
    assert_eq!(case.read("two"), None);
    let plan = case.engine.history().plan_redo(
        &ctx(),
        &session,
        &UndoTarget::Message(mid("u")),
        &UndoOptions::default(),
    );
    case.engine.history().apply(&ctx(), &plan.expect("a plan")).expect("applied");
    assert_eq!((case.read("one").is_some(), case.read("two").is_some()), (true, true));
}

#[test]
fn revert_to_empty_or_unknown_message_changes_nothing() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    for message in ["1", "none"] {
        let done = case
            .engine
            .history()
            .reverts()
            .revert(&ctx(), &session, &mid(message), None)
            .expect("reads");
        assert!(done.is_none());
    }
    assert_eq!((case.read("f").as_deref(), case.head(&session)), (Some("one"), None));
}

#[test]
fn revert_keeps_human_edits_and_reports_conflicts() {
    let (case, session) = three(["f", "g", "f"]);
    case.put("f", Some("mine"));
    let report = revert(&case, &session, "b", None);
    assert_eq!(report.roots[0].report.conflicts.len(), 1);
    assert_eq!((case.read("f").as_deref(), case.read("g")), (Some("mine"), None));
    // What was not undone is not redone either.
    unrevert(&case, &session);
    assert_eq!((case.read("f").as_deref(), case.read("g").is_some()), (Some("mine"), true));
}

#[test]
fn unrevert_keeps_earlier_undone_turn_undone() {
    let (case, session) = three(["1", "2", "3"]);
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
    case.undo(&session, &UndoTarget::Turn(turns[1].id.clone()));
    revert(&case, &session, "b", None);
    unrevert(&case, &session);
    assert_eq!(["1", "2", "3"].map(|file| case.read(file).is_some()), [true, false, true]);
}

/// Proves W17, R45.
#[test]
fn revert_during_turn_is_rejected() {
    let (case, session) = three(["1", "2", "3"]);
    let turn = case.begin_prompted_turn(&session, "d");
    let busy = case.engine.history().reverts().revert(&ctx(), &session, &mid("b"), None);
    assert!(matches!(busy, Err(EngineError::Store(StoreError::Busy(_)))), "{busy:?}");
    assert!(case.read("2").is_some() && case.head(&session).is_none());
    case.end(&turn);
}

/// Proves W18, R19.
#[test]
fn prompt_after_revert_destroys_nothing() {
    let (case, session) = three(["1", "2", "3"]);
    revert(&case, &session, "b", None);
    case.run_turn(&session, "d", ("4", Some("4")));
    assert_eq!(case.messages(&session), ["c", "ca", "d", "da"]);
    let changes =
        case.engine.store().read(&ctx(), |r| r.change_sets().list(&session)).expect("reads");
    assert_eq!(changes.len(), 4, "what was undone is still known");
}

/// Proves R21.
#[test]
fn imported_turns_revert_without_files() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("theirs", Some("theirs"));
    let file = case.root().join("theirs").to_string_lossy().into_owned();
    let (one, two) = (user(&session, "u"), assistant(&session, "x", "u"));
    let parts = [
        part(&session, "u", "u0", json!({"type": "text", "text": "do"})),
        part(&session, "x", "x0", json!({"type": "patch", "hash": "0", "files": [file]})),
    ];
    let import = move |tx: &turnstone_store::Tx<'_>| {
        tx.messages().put(&one)?;
        tx.messages().put(&two)?;
        parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))
    };
    case.engine.store().write(&ctx(), import).wait().expect("imported");

    let report = revert(&case, &session, "u", None);

    assert_eq!(case.head(&session), whole("u"));
    assert_eq!(report.not_covered.len(), 1, "{report:?}");
    assert_eq!(report.not_covered[0].1.to_string(), "theirs");
    assert_eq!(case.read("theirs").as_deref(), Some("theirs"), "an unknown tree deletes nothing");
    unrevert(&case, &session);
    assert_eq!(case.head(&session), None);
}

fn todo(case: &EngineFixture, session: &SessionId, text: &str) {
    let todos = json!([{"content": text, "status": "pending", "priority": "low"}]);
    let todos: Vec<_> = serde_json::from_value(todos).expect("todos");
    let session = session.clone();
    let set = move |tx: &turnstone_store::Tx<'_>| tx.sessions().set_todos(&session, &todos);
    case.engine.store().write(&ctx(), set).wait().expect("set");
}

fn todos(case: &EngineFixture, session: &SessionId) -> Vec<String> {
    let todos = case.engine.store().read(&ctx(), |r| r.sessions().todos(session)).expect("reads");
    todos.into_iter().map(|todo| todo.content).collect()
}

#[test]
fn todos_follow_revert_and_human_todos_stay() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    todo(&case, &session, "first");
    let turn = case.begin_prompted_turn(&session, "a");
    todo(&case, &session, "second");
    case.end(&turn);

    case.undo(&session, &UndoTarget::Last);
    assert_eq!(todos(&case, &session), ["first"]);
    case.redo(&session);
    assert_eq!(todos(&case, &session), ["second"]);
    revert(&case, &session, "a", None);
    assert_eq!(todos(&case, &session), ["first"]);
    unrevert(&case, &session);
    assert_eq!(todos(&case, &session), ["second"]);
    todo(&case, &session, "mine");
    revert(&case, &session, "a", None);
    assert_eq!(todos(&case, &session), ["mine"], "changed since by another client");
    case.assert_consistent();
}

/// Proves R20.
#[test]
fn revert_withdraws_grants_for_good() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let (child, other) = (case.session("ses_b", Some("ses_a")), case.session("ses_c", None));
    let grant = |pattern: &str, session: &SessionId| {
        let rule = json!({"permission": "bash", "pattern": pattern, "action": "allow"});
        let rule = serde_json::from_value(rule).expect("a rule");
        let (project, session) = ("p1".parse().expect("an id"), session.clone());
        let grant = move |tx: &turnstone_store::Tx<'_>| {
            tx.projects().approve_rule_for_session(&project, &rule, &session)
        };
        case.engine.store().write(&ctx(), grant).wait().expect("granted");
    };
    let granted = || {
        let project = "p1".parse().expect("an id");
        let rules = case
            .engine
            .store()
            .read(&ctx(), |r| r.projects().approved_rules(&project))
            .expect("reads");
        rules.into_iter().map(|rule| rule.pattern).collect::<Vec<_>>()
    };
    grant("ls *", &session);
    let turn = case.begin_prompted_turn(&session, "a");
    grant("rm *", &session);
    grant("make *", &child);
    // Somebody else works in the project at the same time.
    grant("cargo *", &other);
    case.end(&turn);
    grant("git *", &session);

    let report = case.undo(&session, &UndoTarget::Last);

    assert_eq!(report.withdrawn.len(), 2);
    assert_eq!(granted(), ["ls *", "cargo *", "git *"]);
    case.redo(&session);
    assert_eq!(granted(), ["ls *", "cargo *", "git *"]);
    case.assert_consistent();
}

#[test]
fn interrupted_revert_finishes_once() {
    for point in ["engine::operation_planned", "engine::root_applied"] {
        let scenario = fail::FailScenario::setup();
        let (case, session) = three(["1", "2", "3"]);
        revert(&case, &session, "c", None);
        fail::cfg(point, "return").expect("set");
        case.engine
            .history()
            .reverts()
            .revert(&ctx(), &session, &mid("a"), None)
            .expect_err("cut off");
        fail::remove(point);
        let case = case.reopen();
        assert_eq!(
            case.engine.maintenance().recover_all(&ctx()).expect("recovers").finished.len(),
            1,
            "{point}"
        );
        assert_eq!(["1", "2", "3"].map(|file| case.read(file).is_some()), [true, true, false]);
        assert_eq!(case.head(&session), whole("a"));
        scenario.teardown();
    }
}
