//! Servers that misbehave.

use std::cell::Cell;
use std::time::Duration;

use serde_json::json;
use turnstone_mcp::{CallControl, ToolServerError, ToolServerStatus};

use crate::fixture::{PoolFixture, act, call, names, no_arguments, wait_until};

#[test]
fn names_descriptions_and_results_have_no_control_characters() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("control"));
    assert_eq!(names(&server), ["fine"]);
    assert_eq!(server.omitted_tools(), 1);
    let tools = server.tools();
    assert_eq!(tools[0].description, "a[2Jbc");
    assert!(tools[0].is_read_only);
    assert_eq!(server.instructions().as_deref(), Some("Be[31m careful."));
    assert_eq!(act(&server).expect("answered").text, "done[0m ok");
}

#[test]
fn huge_lists_are_cut() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("huge"));
    assert_eq!(server.tools().len(), 200);
    assert_eq!(server.omitted_tools(), 102);
    assert!(server.tools().iter().all(|tool| tool.description.len() < 9_000));
    let paged = PoolFixture::new();
    let server = paged.connect(&paged.scripted("endless-pages"));
    assert_eq!((names(&server), server.omitted_tools()), (vec!["again".to_owned()], 49));
}

#[test]
fn death_in_a_call_is_an_error_with_the_last_words_and_the_server_starts_again() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("dies"));
    let error = act(&server).expect_err("it died");
    assert!(error.to_string().contains("out of [31mluck"), "{error}");
    wait_until("the end", || matches!(server.status(), ToolServerStatus::Failed(_)));
    assert_eq!(names(&server), ["act", "look"], "what it listed is still known");
    wait_until("a new start", || {
        server.start();
        server.status() == ToolServerStatus::Connected
    });
}

#[test]
fn oversized_message_ends_the_connection() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("huge-line"));
    let error = act(&server).expect_err("too long");
    assert!(error.to_string().contains("more than 16 MiB"), "{error}");
}

#[test]
fn invalid_json_and_greetings_are_skipped() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("bad-json"));
    assert_eq!(act(&server).expect("answered").text, "done[0m ok");
    let chatty = PoolFixture::new();
    assert!(act(&chatty.connect(&chatty.scripted("chatty"))).is_ok());
}

#[test]
fn flood_of_progress_does_not_drown_the_result() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("progress-flood"));
    let count = Cell::new(0);
    let result = server.call("act", no_arguments(), &CallControl::default(), &|progress| {
        count.set(count.get() + 1);
        assert!(progress.message.is_none_or(|message| message.starts_with("step ")));
    });
    assert_eq!(result.expect("answered").text, "done[0m ok");
    assert!((1..=2_000).contains(&count.get()), "{}", count.get());
}

#[test]
fn flood_of_requests_ends_the_connection() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("request-flood"));
    let error = act(&server).expect_err("it floods");
    assert!(error.to_string().contains("floods"), "{error}");
}

#[test]
fn answers_of_another_shape_and_refusals_are_errors() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("wrong-shape"));
    let error = act(&server).expect_err("no result");
    assert!(matches!(error, ToolServerError::InvalidAnswer { .. }), "{error:?}");
    let refusing = PoolFixture::new();
    let error = act(&refusing.connect(&refusing.scripted("refuses"))).expect_err("refused");
    assert_eq!(error, ToolServerError::Refused { message: "not[31m today".to_owned() });
}

#[test]
fn silent_server_times_out_and_is_notified() {
    let fixture = PoolFixture::new();
    let mut settings = fixture.scripted("silent");
    settings.call_timeout = Duration::from_millis(100);
    let server = fixture.connect(&settings);
    let error = act(&server).expect_err("no answer");
    assert_eq!(error, ToolServerError::Timeout { limit: settings.call_timeout });
    let is_notified =
        || fs_err::read_to_string(fixture.path("state")).is_ok_and(|it| it == "cancelled");
    wait_until("the notice", is_notified);
    assert_eq!(server.status(), ToolServerStatus::Connected);

    let mute = PoolFixture::new();
    let mut settings = mute.scripted("never-answers");
    settings.start_timeout = Duration::from_millis(300);
    let error = mute.fail_to_connect(&settings);
    assert_eq!(error, ToolServerError::Timeout { limit: settings.start_timeout });
}

#[test]
fn cancelled_call_returns_at_once() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("silent"));
    let control = CallControl::default();
    let other = control.clone();
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| server.call("act", no_arguments(), &control, &|_| {}));
        other.cancel();
        running.join().expect("joined")
    });
    assert_eq!(result, Err(ToolServerError::Cancelled));
}

#[test]
fn tool_that_says_it_failed_is_not_an_error_of_the_server() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("plain"));
    assert!(call(&server, "fail", json!({})).expect("answered").is_error);
    let seen = call(&server, "look", json!({"a": [1, "b"]})).expect("answered");
    assert_eq!(seen.text, r#"{"a": [1, "b"]}"#);
}
