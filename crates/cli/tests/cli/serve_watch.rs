//! `turnstone serve` watches the projects it works in; other commands use its store.

use std::time::Duration;

use serde_json::Value;

use crate::exec::run_program;
use crate::fixture::CliFixture;
use crate::serve_process::start_serve;
use crate::serve_shell::TestServer;
use crate::serve_shutdown::{open_request, send_signals, wait_for_exit};

/// The state of the watcher in `status`, once it is this one.
fn await_watcher(case: &CliFixture, state: &str) -> Value {
    for _ in 0..1200 {
        let status = case.run_json(&["status"]);
        if status["watcher"]["state"] == state {
            return status;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("{}", case.run_json(&["status"]));
}

#[test]
fn serve_watches_for_other_commands_and_may_be_killed() {
    let case = CliFixture::empty();
    let file = case.path("p").join("made");
    let served = TestServer::start(&case);
    assert_eq!(case.run_json(&["status"])["watcher"], Value::Null);
    let session = served.create_session();
    let status = await_watcher(&case, "on");
    assert!(status["keeper"].is_string(), "{status}");
    let shown = case.run(&["status"]);
    assert!(shown.out.contains("watcher   on; "), "{}", shown.out);
    let (code, answer) = served.run_shell(&session, "echo shelled > made");
    assert_eq!(code, 200, "{answer}");
    let ran = run_program(&case, &["exec", "--", "sh", "-c", "echo from exec > made"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let undone = run_program(&case, &["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(fs_err::read_to_string(&file).expect("text"), "shelled\n");

    served.kill();
    let status = case.run_json(&["status"]);
    assert_eq!((&status["keeper"], &status["watcher"]), (&Value::Null, &Value::Null));
    let undone = run_program(&case, &["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert!(!file.exists(), "nothing is stuck");
}

#[test]
fn second_server_uses_the_store_of_the_first() {
    let case = CliFixture::empty();
    let first = TestServer::start(&case);
    let session = first.create_session();
    await_watcher(&case, "on");
    let second = TestServer::start(&case);
    let (code, answer) = second.run_shell(&session, "echo two > made");
    assert_eq!(code, 200, "{answer}");
    let (_, of_first) = first.request("GET", "/turnstone/server", &Value::Null);
    let (_, of_second) = second.request("GET", "/turnstone/server", &Value::Null);
    assert_eq!(
        (&of_first["watched"][0]["owner"], &of_second["watched"][0]["owner"]),
        (&true.into(), &false.into())
    );
    first.kill();
    let (code, answer) = second.run_shell(&session, "echo three > made");
    assert_eq!(code, 200, "{answer}");
    let undone = run_program(&case, &["undo"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    let text = fs_err::read_to_string(case.path("p").join("made")).expect("text");
    assert_eq!(text, "two\n");
}

#[test]
fn sigterm_ends_a_server_that_captures_a_baseline() {
    let case = CliFixture::empty();
    for nth in 0..2_000 {
        fs_err::write(case.path("p").join(format!("file-{nth}")), nth.to_string())
            .expect("written");
    }
    let mut started = start_serve(&case, &["serve", "--port", "0", "--json"], |_| {});
    let create = "POST /session HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                  content-length: 0\r\n\r\n";
    let mut answer = String::new();
    let mut socket = open_request(&started, create);
    std::io::Read::read_to_string(&mut socket, &mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    send_signals(&started.child, &["TERM"]);

    assert!(wait_for_exit(&mut started.child).success());
    let ran = run_program(&case, &["exec", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
