//! Subagents work in sessions of their own and return their last text.

use serde_json::json;
use turnstone_core::model::{PermissionReply, ToolState};
use turnstone_core::turn::TurnState;

use crate::fixture::{RunFixture, person};

fn children(
    case: &RunFixture,
    parent: &turnstone_core::id::SessionId,
) -> Vec<turnstone_core::id::SessionId> {
    let found = case.calls(parent).into_iter().filter_map(|call| {
        let value = serde_json::to_value(&call.state).expect("json");
        value["metadata"]["sessionId"].as_str().map(|id| id.parse().expect("an id"))
    });
    found.collect()
}

#[test]
fn subagent_answers_its_call() {
    let task = json!({"tool": "task", "input": {"agent": "helper", "prompt": "look"}});
    let case = RunFixture::new(&json!({
        "turns": [[task], [{"text": "Thanks."}]],
        "subagent_turns": [[{"tool": "put", "input": {"file": "c", "content": "child"}}], [{"text": "Found it."}]],
    }));
    let session = case.session();
    case.prompt(&session, "go");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    assert_eq!(case.calls(&session)[0].output(), Some("Found it."));
    assert_eq!(fs_err::read_to_string(case.root().join("c")).expect("written"), "child");
    let nested = case.engine.store().read(&person(), |r| r.sessions().children(&session));
    let nested = nested.expect("reads");
    assert_eq!(nested.len(), 1);
    assert_eq!(nested[0].title, "look (@helper subagent)");
    assert_eq!(case.answers(&session), ["Thanks."]);
}

#[test]
fn ask_of_a_subagent_makes_both_turns_wait() {
    let task = json!({"tool": "task", "input": {"agent": "helper", "prompt": "look"}});
    let case = RunFixture::new(&json!({
        "turns": [[task], [{"text": "Thanks."}]],
        "subagent_turns": [[{"tool": "guarded", "input": {"what": "deep"}}], [{"text": "Did it."}]],
    }));
    let session = case.session();
    case.prompt(&session, "go");
    case.wait_until("the child", |it| !children(it, &session).is_empty());
    let child = children(&case, &session).remove(0);
    let request = case.wait_for_request(&child);
    case.wait_until_suspended(&child);
    case.wait_until_suspended(&session);
    case.reply(&request, PermissionReply::Once, None);
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    assert_eq!(case.calls(&session)[0].output(), Some("Did it."));
}

#[test]
fn abort_reaches_the_subagent() {
    let task = json!({"tool": "task", "input": {"agent": "helper", "prompt": "look"}});
    let case = RunFixture::new(&json!({
        "turns": [[task], []], "subagent_turns": [[{"tool": "hang", "input": {}}], []],
    }));
    let session = case.session();
    case.prompt(&session, "go");
    case.wait_until("the child's call", |it| {
        children(it, &session).iter().any(|child| {
            it.calls(child).iter().any(|call| matches!(call.state, ToolState::Running { .. }))
        })
    });
    let child = children(&case, &session).remove(0);
    case.engine.turns().aborts().request(&person(), &session).expect("requested");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Aborted]);
    assert_eq!(case.wait_for_idle(&child), [TurnState::Aborted]);
}

#[test]
fn only_subagents_can_be_called() {
    let task = json!({"tool": "task", "input": {"agent": "build", "prompt": "look"}});
    let case = RunFixture::new(&json!({"turns": [[task], [{"text": "No."}]]}));
    let session = case.session();
    case.prompt(&session, "go");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    let ToolState::Error { error, .. } = &case.calls(&session)[0].state else { panic!() };
    assert!(error.contains("cannot be called as a subagent"), "{error}");
}
