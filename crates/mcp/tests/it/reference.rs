//! The reference server as a program of this machine.

use std::cell::RefCell;

use serde_json::json;
use turnstone_mcp::{CallControl, ToolServerError};

use crate::fixture::{PoolFixture, call, names, reference_script};

#[test]
fn reference_server_lists_its_tools_and_answers_calls() {
    let fixture = PoolFixture::new();
    let script = reference_script();
    let server =
        fixture.connect(&fixture.local(&["node", script.to_str().expect("text"), "stdio"]));
    assert!(names(&server).contains(&"echo".to_owned()), "{:?}", names(&server));
    let echo = server.tools().iter().find(|tool| tool.name == "echo").cloned().expect("echo");
    assert!(echo.is_read_only && echo.input_schema["properties"]["message"]["type"] == "string");
    assert!(server.instructions().expect("instructions").contains("Everything Server"));
    assert_eq!(server.omitted_tools(), 0);

    let echoed = call(&server, "echo", json!({"message": "hi"})).expect("answered");
    assert!(echoed.text.contains("hi") && !echoed.is_error, "{echoed:?}");
    let image = call(&server, "get-tiny-image", json!({})).expect("answered");
    assert_eq!(image.files.len(), 1);
    assert_eq!(image.files[0].mime, "image/png");
    let shaped = call(&server, "get-structured-content", json!({"location": "Chicago"}));
    assert!(shaped.expect("answered").structured.expect("a shape")["temperature"].is_number());
    // Only what it was given: nothing of this process.
    let env = call(&server, "get-env", json!({})).expect("answered").text;
    assert!(env.contains("GREETING") && !env.contains("CARGO_"), "{env}");
    // It asks for the roots when the client says that there are some.
    let roots = call(&server, "get-roots-list", json!({})).expect("answered").text;
    assert!(roots.contains(fixture.root().to_str().expect("text")), "{roots}");
    let wrong = call(&server, "echo", json!({"message": 1}));
    assert!(!matches!(wrong, Ok(ref result) if !result.is_error), "{wrong:?}");
    let unknown = call(&server, "no-such-tool", json!({}));
    assert!(!matches!(unknown, Ok(ref result) if !result.is_error), "{unknown:?}");
}

#[test]
fn progress_arrives_and_a_cancelled_call_returns() {
    let fixture = PoolFixture::new();
    let script = reference_script();
    let server =
        fixture.connect(&fixture.local(&["node", script.to_str().expect("text"), "stdio"]));
    let long = |steps: u64| {
        json!({"duration": steps, "steps": steps}).as_object().cloned().expect("an object")
    };
    let seen = RefCell::new(Vec::new());
    let name = "trigger-long-running-operation";
    let done =
        server.call(name, long(2), &CallControl::default(), &|it| seen.borrow_mut().push(it));
    assert!(!done.expect("answered").is_error);
    assert!(seen.borrow().iter().any(|it| it.total == Some(2.0)), "{seen:?}");
    let control = CallControl::default();
    // The first sign of progress cancels a call that would take an hour.
    let cancelled = server.call(name, long(3_600), &control, &|_| control.cancel());
    assert_eq!(cancelled, Err(ToolServerError::Cancelled));
    assert!(call(&server, "echo", json!({"message": "still here"})).is_ok());
}
