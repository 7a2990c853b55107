//! Permissions and questions: a call waits for its answer, and a refusal has consequences.

use serde_json::json;
use turnstone_core::model::{PermissionReply, RequestBody, RequestState, ToolState};
use turnstone_core::turn::TurnState;

use crate::fixture::{RunFixture, person};

fn guarded(what: &str) -> serde_json::Value {
    json!({"tool": "guarded", "input": {"what": what}})
}

#[test]
fn allowed_call_goes_on() {
    let case = RunFixture::new(&json!({"turns": [[guarded("x")], [{"text": "Done."}]]}));
    let session = case.session();
    case.prompt(&session, "go");
    let request = case.wait_for_request(&session);
    let RequestBody::Permission(ask) = &request.body else { panic!("{request:?}") };
    let call = &case.calls(&session)[0];
    assert_eq!(ask.tool.as_ref().map(|tool| &tool.call), Some(&call.call));
    assert!(matches!(call.state, ToolState::Running { .. }), "clients read the input of the call");
    case.wait_until_suspended(&session);
    case.reply(&request, PermissionReply::Once, None);
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    assert_eq!(case.calls(&session)[0].output(), Some("did x"));
    assert_eq!(case.answers(&session), ["Done."]);
}

#[test]
fn refusal_stops_the_turn_and_withdraws_nothing_it_said() {
    let case = RunFixture::new(&json!({"turns": [
        [{"text": "I will."}, guarded("x")], [{"text": "never"}],
    ]}));
    let session = case.session();
    case.prompt(&session, "go");
    let request = case.wait_for_request(&session);
    case.reply(&request, PermissionReply::Reject, None);
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    assert_eq!(case.answers(&session), ["I will."]);
    let ToolState::Error { error, .. } = &case.calls(&session)[0].state else { panic!() };
    assert!(error.contains("rejected permission"), "{error}");
}

#[test]
fn refusal_with_words_goes_back_to_the_model() {
    let case = RunFixture::new(&json!({"turns": [[guarded("x")], [{"text": "Then not."}]]}));
    let session = case.session();
    case.prompt(&session, "go");
    let request = case.wait_for_request(&session);
    case.reply(&request, PermissionReply::Reject, Some("use y"));
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    let ToolState::Error { error, .. } = &case.calls(&session)[0].state else { panic!() };
    assert!(error.contains("use y"), "{error}");
    assert_eq!(case.answers(&session), ["Then not."]);
}

#[test]
fn same_call_three_times_asks_first() {
    let put = |file: &str| json!({"tool": "question", "input": {"file": file}});
    let case = RunFixture::new(&json!({"turns": [
        [guarded("x")], [guarded("x")], [guarded("x")], [put("z"), {"text": "End."}],
    ]}));
    let session = case.session();
    case.prompt(&session, "go");
    for _ in 0..2 {
        let request = case.wait_for_request(&session);
        case.reply(&request, PermissionReply::Once, None);
        case.wait_until("the answer to be taken", |it| !it.pending(&session).contains(&request));
    }
    let request = case.wait_for_request(&session);
    let RequestBody::Permission(ask) = &request.body else { panic!("{request:?}") };
    assert_eq!(
        (ask.permission.as_str(), ask.patterns.as_slice()),
        ("doom_loop", &["guarded".to_owned()][..])
    );
    case.reply(&request, PermissionReply::Reject, None);
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
}

#[test]
fn question_waits_for_its_answer() {
    let case = RunFixture::new(&json!({"turns": [
        [{"tool": "question", "input": {}}], [{"text": "Thanks."}],
    ]}));
    let session = case.session();
    case.prompt(&session, "go");
    let request = case.wait_for_request(&session);
    let answers = RequestState::Answered { answers: vec![vec!["blue".to_owned()]] };
    let permissions = case.engine.permissions();
    permissions.answer_question(&person(), &request.id, answers).expect("answered");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    assert_eq!(case.calls(&session)[0].output(), Some(r#"[["blue"]]"#));
}
