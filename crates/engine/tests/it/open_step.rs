//! The step that is open when its turn ends: usage and patch are written with the end (R28).

use serde_json::json;
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::model::{MessageBody, PartBody, PatchPart, StepFinishPart, ToolState};
use turnstone_core::time::LogCursor;
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{ToolFileAccess, ToolRun, Turn};

use crate::engine_fixture::{EngineFixture, answer, ctx, messages, part};

/// A step whose provider has reported tokens, and a call in it that writes `f` and runs.
fn begin_call(case: &EngineFixture, turn: &Turn) -> ToolRun {
    let mut said = answer(&turn.session, "a1", "1");
    case.engine.turns().steps().begin(&ctx(), turn, said.clone()).expect("begins");
    if let MessageBody::Assistant(body) = &mut said.body {
        (body.tokens.input, body.cost) = (1200.into(), 3.into());
    }
    let report = said.clone();
    let write = move |tx: &turnstone_store::Tx<'_>| tx.messages().put(&report);
    case.engine.store().write(&turn.context(&ctx()), write).wait().expect("reported");
    let state = json!({"status": "running", "input": {}, "time": {"start": 1}});
    let call = json!({"type": "tool", "callID": "t1", "tool": "edit", "state": state});
    let touch = ToolFileAccess::Named(vec!["f".into()]);
    let steps = case.engine.turns().steps();
    let run = steps.begin_tool(&ctx(), turn, &part(&said, "t1", call), &touch).expect("begins");
    case.put("f", Some("written"));
    run
}

fn completed() -> ToolState {
    let state = json!({"status": "completed", "input": {}, "output": "done", "title": "t",
        "metadata": {}, "time": {"start": 1, "end": 2}});
    serde_json::from_value(state).expect("a state")
}

fn finishes(case: &EngineFixture, session: &SessionId) -> Vec<StepFinishPart> {
    let parts = messages(case, session).into_iter().flat_map(|one| one.parts);
    let finish = |body| if let PartBody::StepFinish(finish) = body { Some(finish) } else { None };
    parts.filter_map(|part| finish(part.body)).collect()
}

fn patches(case: &EngineFixture, session: &SessionId) -> Vec<PatchPart> {
    let parts = messages(case, session).into_iter().flat_map(|one| one.parts);
    let patch = |body| if let PartBody::Patch(patch) = body { Some(patch) } else { None };
    parts.filter_map(|part| patch(part.body)).collect()
}

fn changed_file(case: &EngineFixture) -> String {
    case.root().canonicalize().expect("real").join("f").to_string_lossy().into_owned()
}

/// Proves R28.
#[test]
fn open_step_gets_usage_and_patch_in_the_commit_that_ends_its_turn() {
    for (outcome, reason) in [
        (TurnOutcome::Completed, "unknown"),
        (TurnOutcome::Failed, "error"),
        (TurnOutcome::Aborted, "aborted"),
    ] {
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        let turn = case.begin(&session);
        let run = begin_call(&case, &turn);
        case.engine.turns().steps().end_tool(&ctx(), &turn, run, completed()).expect("ends");
        let commits = || case.engine.store().writer_stats().expect("stats").commits();
        let before = commits();

        case.engine.turns().end(&ctx(), &turn, outcome, None).expect("ends");

        assert_eq!(commits(), before + 1, "{reason}: one transaction");
        let finished = finishes(&case, &session);
        assert_eq!(finished.len(), 1, "{reason}");
        let finish = &finished[0];
        assert_eq!((finish.reason.as_str(), &finish.cost), (reason, &3.into()));
        assert_eq!(finish.tokens.input, 1200.into());
        let patches = patches(&case, &session);
        assert_eq!(patches.len(), 1, "{reason}");
        assert_eq!(patches[0].files, [changed_file(&case)]);
        let handle = case.engine.snapshots().open(&case.root(), ctx().now).expect("opens");
        handle.reader().find_capture(&patches[0].hash).expect("names what was there before");
        let parts = messages(&case, &session).pop().expect("an answer").parts;
        assert!(parts.is_sorted_by(|one, other| one.id < other.id), "{parts:?}");
        let usage = case.engine.store().read(&ctx(), |r| r.sessions().usage(&session));
        assert_eq!(usage.expect("reads").input, 1200, "{reason}");
    }
}

/// Proves R28, R32.
#[test]
fn interrupted_step_gets_its_patch_with_the_recovered_change_set() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    drop(begin_call(&case, &turn));
    let case = case.reopen();
    let finished = finishes(&case, &session);
    assert_eq!(finished.len(), 1, "written when the turn was ended");
    assert_eq!(finished[0].reason, "interrupted");
    assert_eq!(finished[0].tokens.input, 1200.into());
    assert_eq!(patches(&case, &session), []);

    case.engine.maintenance().recover_all(&ctx()).expect("recovers");

    let patches = patches(&case, &session);
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].files, [changed_file(&case)]);
    let log = case.engine.store().read(&ctx(), |r| r.log().after(LogCursor(0), 1000));
    let events = log.expect("reads").events;
    let closed = events.iter().position(|event| event.kind == EventKind::ChangeClosed);
    let next = &events[closed.expect("recovered") + 1];
    let body = next.payload.as_ref().map(|payload| &payload["data"]["type"]);
    assert_eq!((next.kind, body), (EventKind::PartUpdated, Some(&json!("patch"))), "{next:?}");
    assert!(case.engine.store().maintenance().verify_projections().expect("verifies").is_empty());
}
