//! Ways in which sessions elsewhere lose work; each would make its test fail (docs/session-parity.md).

use std::path::Path;
use std::sync::Barrier;

use serde_json::json;
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::model::{MessageBody, MessageFailureKind, PartBody, Session, SessionStatus};
use turnstone_core::time::{LogCursor, SessionSeq};
use turnstone_core::turn::TurnState;
use turnstone_core::wire::cost_and_tokens;
use turnstone_engine::{Engine, EngineSettings, ToolFileAccess, UndoOptions, UndoTarget};
use turnstone_store::{LogEvent, Tx};

use crate::conversation_fixture::{mid, pid};
use crate::engine_fixture::{EngineFixture, NOW, answer, ctx, messages, part, prompt};

fn open_second_engine(case: &EngineFixture) -> Engine {
    Engine::open(EngineSettings::new(&case.dir.path().join("data")), NOW).expect("opens")
}

fn stream(case: &EngineFixture, session: &SessionId) -> Vec<LogEvent> {
    let page =
        case.engine.store().read(&ctx(), |r| r.log().stream_after(session, SessionSeq(0), 1000));
    page.expect("reads").events
}

/// Every file of the objects of every snapshot store is removed.
fn lose_objects(folder: &Path) -> usize {
    let mut lost = 0;
    for entry in fs_err::read_dir(folder).expect("listed") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            lost += lose_objects(&path);
        } else if path.components().any(|part| part.as_os_str() == "objects") {
            fs_err::remove_file(path).expect("removed");
            lost += 1;
        }
    }
    lost
}

/// W6: a tree nobody can read is not a tree in which the file was not.
#[test]
fn undo_with_missing_captures_changes_no_file() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("mine", Some("one"));
    let turn = case.begin(&session);
    case.edit(&turn, "mine", Some("two"));
    case.edit(&turn, "made", Some("made"));
    case.shell(&turn, || case.put("shell", Some("shell")));
    case.end(&turn);
    let case = case.reopen();
    assert!(lose_objects(&case.dir.path().join("data/store")) > 0, "there was something to lose");
    let case = case.reopen();
    let options = UndoOptions::default();
    let plan = case.engine.history().plan_undo(&ctx(), &session, &UndoTarget::Last, &options);
    let report = plan.and_then(|plan| case.engine.history().apply(&ctx(), &plan));
    if let Ok(report) = &report {
        assert!(!report.is_complete(), "nobody says that it was undone: {report:?}");
    }
    for (name, text) in [("mine", "two"), ("made", "made"), ("shell", "shell")] {
        assert_eq!(case.read(name).as_deref(), Some(text), "{name}: {report:?}");
    }
}

/// W6: and one whose store is gone altogether.
#[test]
fn undo_with_missing_store_changes_no_file() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("mine", Some("one"));
    let turn = case.begin(&session);
    case.edit(&turn, "mine", Some("two"));
    case.edit(&turn, "made", Some("made"));
    case.end(&turn);
    let case = case.reopen();
    fs_err::remove_dir_all(case.dir.path().join("data/store")).expect("removed");
    let case = case.reopen();
    let plan = case.engine.history().plan_undo(
        &ctx(),
        &session,
        &UndoTarget::Last,
        &UndoOptions::default(),
    );
    let report = plan.and_then(|plan| case.engine.history().apply(&ctx(), &plan));
    if let Ok(report) = &report {
        assert!(!report.is_complete(), "nobody says that it was undone: {report:?}");
    }
    assert_eq!(case.read("mine").as_deref(), Some("two"), "{report:?}");
    assert_eq!(case.read("made").as_deref(), Some("made"), "{report:?}");
}

/// W8: of a session and its forks, every step is counted once, whatever is added up.
#[test]
fn forks_count_every_step_once() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one")));
    case.run_turn(&session, "b", ("f", Some("two")));
    let one = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks").id;
    let two = case.engine.history().forks().fork_session(&ctx(), &one, None).expect("forks").id;
    case.run_turn(&two, "c", ("f", Some("three")));
    let figures = [&session, &one, &two].map(|id| {
        let read = case
            .engine
            .store()
            .read(&ctx(), |r| Ok((r.sessions().get(id)?, r.sessions().usage(id)?)));
        let (session, usage) = read.expect("reads");
        let (cost, tokens) = cost_and_tokens(&session, usage);
        (cost.as_f64(), tokens["input"].as_i64())
    });
    let all = [(Some(2.0), Some(2)), (Some(0.0), Some(0)), (Some(1.0), Some(1))];
    assert_eq!(figures, all, "a cost and a token for each step that was made");
    case.assert_consistent();
}

/// W10: every reader of the log learns that a session is gone, also one that was disconnected.
#[test]
fn late_reader_learns_of_deleted_sessions() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.session("ses_b", Some("ses_a"));
    case.run_turn(&session, "a", ("f", Some("one")));
    let away = case.engine.store().read(&ctx(), |r| r.log().last_cursor()).expect("reads");
    case.engine.store().delete_session(&ctx(), &session).expect("deleted");
    while !case.engine.store().maintenance().purge_deleted(&ctx(), 1).expect("purged") {}
    let case = case.reopen();
    for from in [away, LogCursor(0)] {
        let page = case.engine.store().read(&ctx(), |r| r.log().after(from, 1000)).expect("reads");
        let mut gone: Vec<String> = page
            .events
            .iter()
            .filter(|event| event.kind == EventKind::SessionDeleted)
            .filter_map(|event| Some(event.payload.as_ref()?["id"].as_str()?.to_owned()))
            .collect();
        gone.sort();
        assert_eq!(gone, ["ses_a", "ses_b"], "from {from:?}");
    }
    case.assert_consistent();
}

/// W11: the end of a turn is the last thing that is written of it, and what a revert counted stays.
#[test]
fn nothing_is_written_after_turn_end() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("before"));
    for name in ["a", "b"] {
        case.run_turn(&session, name, ("f", Some(name)));
        let last = stream(&case, &session).pop().expect("an event");
        assert_eq!(last.kind, EventKind::TurnEnded, "{name}");
    }
    let seq =
        |case: &EngineFixture| case.engine.store().read(&ctx(), |r| r.sessions().seq(&session));
    let before = seq(&case).expect("reads");
    // Whatever might still run in the background has a reason to run now.
    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    assert_eq!(seq(&case).expect("reads"), before);
    let case = case.reopen();
    assert_eq!(seq(&case).expect("reads"), before);
}

/// W12: a change of a session changes its own field and no other, in however many processes.
#[test]
fn concurrent_session_updates_keep_each_field() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let (second, start) = (open_second_engine(&case), Barrier::new(3));
    let change = |engine: &Engine, set: fn(&mut Session, u32)| {
        start.wait();
        for n in 0..20 {
            let id = session.clone();
            let write = move |tx: &Tx<'_>| {
                tx.sessions().update(&id, |it| {
                    set(it, n);
                    Ok(())
                })
            };
            engine.store().write(&ctx(), write).wait().expect("written");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| change(&second, |it, n| it.title = format!("title {n}")));
        scope.spawn(|| {
            change(&second, |it, n| it.metadata = json!({ "n": n }).as_object().cloned());
        });
        start.wait();
        for n in 0..6 {
            case.run_turn(&session, &format!("t{n}"), ("f", Some(&n.to_string())));
        }
        case.undo(&session, &UndoTarget::Last);
    });
    let read = case.engine.store().read(&ctx(), |r| {
        Ok((
            r.sessions().get(&session)?,
            r.sessions().usage(&session)?,
            r.sessions().head(&session)?,
        ))
    });
    let (found, usage, head) = read.expect("reads");
    assert_eq!(found.title, "title 19");
    assert_eq!(found.metadata, json!({ "n": 19 }).as_object().cloned());
    assert_eq!((usage.input, usage.output), (6, 12), "each step was counted");
    assert_eq!(head.map(|head| head.message), Some(mid("t5")));
    case.assert_consistent();
}

/// W15: a second attempt begins with a clean answer; what the first one did to files stays known.
#[test]
fn failed_attempt_leaves_only_executed_calls() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.engine.turns().begin(&ctx(), prompt(&session, "u")).expect("begins");
    let said = answer(&session, "a", "u");
    let step = case.engine.turns().steps().begin(&ctx(), &turn, said.clone()).expect("begins");
    case.add(&turn, "a", "think", json!({"type": "reasoning", "text": "", "time": {"start": 1}}));
    case.engine
        .turns()
        .steps()
        .append_text(&ctx(), &turn, &pid("think"), "half a thought")
        .expect("appended");
    let tool = |state| json!({"type": "tool", "callID": "c", "tool": "edit", "state": state});
    let running = json!({"status": "running", "input": {}, "time": {"start": 1}});
    let ran = part(&said, "ran", tool(running));
    let touch = ToolFileAccess::Named(vec!["f".into()]);
    let run =
        case.engine.turns().steps().begin_tool(&ctx(), &turn, &ran, &touch).expect("announced");
    case.put("f", Some("made"));
    let done = json!({"status": "completed", "input": {}, "output": "", "title": "",
        "metadata": {}, "time": {"start": 1, "end": 2}});
    let done = serde_json::from_value(done).expect("a state");
    case.engine.turns().steps().end_tool(&ctx(), &turn, run, done).expect("closed");
    case.add(&turn, "a", "text", json!({"type": "text", "text": "", "time": {"start": 1}}));
    let pending = json!({"status": "pending", "input": {}, "raw": "{\"pa"});
    case.add(&turn, "a", "never", tool(pending));
    case.add(&turn, "a", "again", json!({"type": "step-start"}));

    let status = SessionStatus::Retry {
        attempt: 1.into(),
        message: "overloaded".into(),
        next: 2_000.into(),
        action: None,
    };
    let gone = case
        .engine
        .turns()
        .clear_failed_attempt(&ctx(), &turn, &mid("a"), &status)
        .expect("cleared");
    assert_eq!(gone, [pid("think"), pid("text"), pid("never"), pid("again")]);
    let shown = case.engine.store().read(&ctx(), |r| r.sessions().status(&session)).expect("reads");
    assert_eq!(shown, status);
    let left = messages(&case, &session).remove(1).parts;
    assert!(matches!(left[0].body, PartBody::StepStart(_)), "{left:?}");
    assert!(matches!(&left[1].body, PartBody::Tool(_)) && left.len() == 2, "{left:?}");
    let kept = stream(&case, &session).into_iter().filter_map(|it| it.delta);
    let kept: Vec<String> = kept.map(|delta| delta.text).collect();
    assert_eq!(kept, ["half a thought"], "the log has what was said");
    // Cut off before the second attempt: nothing is stuck, and the file can be had back.
    drop((turn, step));
    let case = case.reopen();
    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
    assert_eq!(turns[0].state, TurnState::Interrupted);
    assert!(case.undo(&session, &UndoTarget::Last).is_complete());
    assert_eq!(case.read("f"), None);
    case.assert_consistent();
}

/// W3: stopped while it waits for its next attempt, an answer says so, and nothing stays open.
#[test]
fn abort_between_attempts_marks_the_answer() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.engine.turns().begin(&ctx(), prompt(&session, "u")).expect("begins");
    case.engine.turns().steps().begin(&ctx(), &turn, answer(&session, "a", "u")).expect("begins");
    case.add(&turn, "a", "text", json!({"type": "text", "text": "", "time": {"start": 1}}));
    let (attempt, next) = (1.into(), 2_000.into());
    let status = SessionStatus::Retry { attempt, message: "overloaded".into(), next, action: None };
    case.engine.turns().clear_failed_attempt(&ctx(), &turn, &mid("a"), &status).expect("cleared");
    case.engine.turns().abort(&ctx(), &turn).expect("aborted");
    let MessageBody::Assistant(said) = messages(&case, &session).remove(1).message.body else {
        panic!("an answer")
    };
    assert_eq!(said.error.map(|error| error.name), Some(MessageFailureKind::MessageAbortedError));
    assert!(said.time.completed.is_some());
    let shown = case.engine.store().read(&ctx(), |r| r.sessions().status(&session)).expect("reads");
    assert_eq!(shown, SessionStatus::Idle);
}

/// W18: a prompt of a second process at a staged revert hides, and hides no more than was reverted.
/// Proves R19.
#[test]
fn prompt_of_second_process_at_revert_only_hides() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one")));
    case.run_turn(&session, "b", ("f", Some("two")));
    case.undo(&session, &UndoTarget::Last);
    let second = open_second_engine(&case);
    let turn = second.turns().begin(&ctx(), prompt(&session, "c")).expect("begins");
    second.turns().abort(&ctx(), &turn).expect("aborted");
    assert_eq!(case.messages(&session), ["a", "aa", "c"]);
    let hidden = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
    assert_eq!(hidden.len(), 3, "the undone turn is in the database");
    let events = stream(&case, &session);
    let parts = events.iter().filter(|it| it.kind == EventKind::PartUpdated && !it.is_stub());
    let parts = parts.filter(|it| it.payload.as_ref().is_some_and(|p| p["id"] == "prt_b0"));
    assert_eq!(parts.count(), 1, "what it said too");
    case.assert_consistent();
}
