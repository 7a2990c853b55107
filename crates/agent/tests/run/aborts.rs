//! An abort ends a turn wherever it is, and leaves an end state.

use serde_json::json;
use turnstone_core::id::SessionId;
use turnstone_core::model::ToolState;
use turnstone_core::turn::TurnState;

use crate::fixture::{RunFixture, person};

fn abort(case: &RunFixture, session: &SessionId) {
    case.engine.turns().aborts().request(&person(), session).expect("requested");
}

fn assert_aborted(case: &RunFixture, session: &SessionId) {
    assert_eq!(case.wait_for_idle(session), [TurnState::Aborted]);
    let failure = serde_json::to_value(case.failure(session).expect("a failure")).expect("json");
    assert_eq!(failure["name"], "MessageAbortedError");
}

#[test]
fn abort_in_text_keeps_the_text() {
    let case = RunFixture::new(&json!({"turns": [
        [{"text": "so far"}, {"wait_for_file": "/nonexistent/never"}],
    ]}));
    let session = case.session();
    case.prompt(&session, "go");
    case.wait_until("the text", |it| it.answers(&session) == ["so far"]);
    abort(&case, &session);
    assert_aborted(&case, &session);
    assert_eq!(case.answers(&session), ["so far"]);
}

#[test]
fn abort_in_a_call_ends_the_call() {
    let case = RunFixture::new(&json!({"turns": [[{"tool": "hang", "input": {}}], []]}));
    let session = case.session();
    case.prompt(&session, "go");
    let is_running = |it: &RunFixture| matches!(it.calls(&session).first(), Some(call) if matches!(call.state, ToolState::Running { .. }));
    case.wait_until("a running call", is_running);
    abort(&case, &session);
    assert_aborted(&case, &session);
    let ToolState::Error { metadata, .. } = &case.calls(&session)[0].state else { panic!() };
    let metadata = metadata.as_ref().expect("metadata");
    assert_eq!((&metadata["interrupted"], &metadata["output"]), (&json!(true), &json!("so far")));
}

#[test]
fn abort_in_an_ask_withdraws_it() {
    let guarded = json!({"tool": "guarded", "input": {"what": "x"}});
    let case = RunFixture::new(&json!({"turns": [[guarded], []]}));
    let session = case.session();
    case.prompt(&session, "go");
    case.wait_for_request(&session);
    case.wait_until_suspended(&session);
    abort(&case, &session);
    assert_aborted(&case, &session);
    assert!(case.pending(&session).is_empty());
}

#[test]
fn abort_in_a_retry_wait_ends_the_turn() {
    let case = RunFixture::new(&json!({"turns": [[
        {"error": {"message": "busy", "status": 529, "retry_after": 3_600_000}},
        {"text": "never"},
    ]]}));
    let session = case.session();
    case.prompt(&session, "go");
    case.wait_until("the retry", |it| {
        let status = it.engine.store().read(&person(), |r| r.sessions().status(&session));
        let status = serde_json::to_value(status.expect("reads")).expect("json");
        status["type"] == "retry"
    });
    abort(&case, &session);
    assert_aborted(&case, &session);
}
