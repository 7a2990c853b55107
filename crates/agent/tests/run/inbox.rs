//! Whose prompts the runner takes, and what it reports.

use std::sync::atomic::Ordering;

use serde_json::json;
use turnstone_core::turn::TurnState;

use crate::fixture::{RunFixture, person};

#[test]
fn prompts_of_another_runner_are_left_alone_until_it_is_gone() {
    let case = RunFixture::new(&json!({"turns": [[{"text": "Hi."}]]}));
    let session = case.session();
    case.observer.is_taken.store(true, Ordering::SeqCst);
    case.prompt(&session, "go");
    case.runner.wake_all().expect("looked");
    case.wait_until("the runner to look", |it| !it.runner.is_running(&session));
    let read = |r: &turnstone_store::ReadTx<'_>| r.prompts().waiting(&session);
    assert_eq!(case.engine.store().read(&person(), read).expect("reads").len(), 1);

    case.observer.is_taken.store(false, Ordering::SeqCst);
    case.runner.wake_all().expect("looked");

    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    assert_eq!(case.answers(&session), ["Hi."]);
}

#[test]
fn ends_of_subagents_are_reported_too() {
    let task = json!({"tool": "task", "input": {"agent": "helper", "prompt": "look"}});
    let case = RunFixture::new(&json!({
        "turns": [[task], [{"text": "Thanks."}]], "subagent_turns": [[{"text": "Found it."}]],
    }));
    let session = case.session();
    case.prompt(&session, "go");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    let children = case.engine.store().read(&person(), |r| r.sessions().children(&session));
    let child = children.expect("reads").remove(0).id;
    assert_eq!(case.observer.ended(), [child, session]);
}
