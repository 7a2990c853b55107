//! Batches through the server adapter, without a socket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use capnweb::net::{RpcServer, ServerOptions, serve_batch};

use crate::service;

fn server(change: impl FnOnce(&mut ServerOptions)) -> RpcServer {
    let mut options = ServerOptions::default();
    change(&mut options);
    RpcServer::new(service::main_object, options)
}

#[tokio::test]
async fn blank_lines_and_carriage_returns_are_ignored() {
    let server = server(|_| {});
    let body = "\r\n[\"push\",[\"pipeline\",0,[\"greet\"],[\"bob\"]]]\r\n\n[\"pull\",1]\n";
    assert_eq!(serve_batch(&server, body).await, r#"["resolve",1,"hi bob"]"#);
    assert_eq!(serve_batch(&server, "").await, "");
}

#[tokio::test]
async fn batch_calls_are_rejected_at_the_deadline() {
    let server = server(|options| options.batch_deadline = Duration::from_millis(50));
    let body =
        "[\"push\",[\"pipeline\",0,[\"never\"],[]]]\n[\"pull\",1]\n[\"push\",5]\n[\"pull\",2]";
    let said = serve_batch(&server, body).await;
    assert!(said.contains(r#"["resolve",2,5]"#), "{said}");
    assert!(
        said.contains(
            r#"["reject",1,["error","Error","the batch took too long",null,{"code":"deadline"}]]"#
        ),
        "{said}"
    );
}

#[tokio::test]
async fn call_waiting_for_the_batch_sender_fails_immediately() {
    let server = server(|_| {});
    let said = serve_batch(&server, "[\"push\",[\"promise\",-9]]\n[\"pull\",1]");
    let said = tokio::time::timeout(Duration::from_secs(60), said).await.expect("at once");
    assert!(said.contains("\"batch\""), "{said}");
}

#[tokio::test]
async fn promise_resolved_within_the_batch_works() {
    let server = server(|_| {});
    let said =
        serve_batch(&server, "[\"push\",[\"promise\",-9]]\n[\"pull\",1]\n[\"resolve\",-9,7]").await;
    assert!(said.contains(r#"["resolve",1,7]"#), "{said}");
}

#[tokio::test]
async fn batch_message_count_is_limited() {
    let server = server(|options| options.session.limits.batch_messages = 2);
    let said = serve_batch(&server, "[\"push\",1]\n[\"pull\",1]\n[\"push\",2]").await;
    assert!(said.starts_with("[\"resolve\",1,1]\n[\"abort\","), "{said}");
}

#[tokio::test]
async fn malformed_message_ends_the_response_with_abort() {
    let server = server(|_| {});
    let said = serve_batch(&server, "[\"push\",1]\n[\"pull\",1]\nnonsense\n[\"push\",2]").await;
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], r#"["resolve",1,1]"#);
    assert!(lines[1].starts_with(r#"["abort",["error","SyntaxError","bad RPC message"#), "{said}");
    assert!(lines[1].contains(r#"{"code":"protocol"}"#), "{said}");
    assert_eq!(lines.len(), 2);
}

#[tokio::test]
async fn incidents_are_reported_and_numbered_per_session() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    let server = server(|_| {}).on_incident(move |incident| {
        list.lock().expect("unpoisoned").push(format!("{} {}", incident.id, incident.error));
    });
    for _ in 0..2 {
        let said =
            serve_batch(&server, "[\"push\",[\"pipeline\",0,[\"leak\"],[]]]\n[\"pull\",1]").await;
        assert!(!said.contains("hunter2"), "{said}");
    }
    let seen = seen.lock().expect("unpoisoned").clone();
    assert_eq!(seen, ["1-1 password=hunter2", "2-1 password=hunter2"]);
}

#[tokio::test]
async fn unpulled_calls_are_dropped_beyond_their_byte_limit() {
    let server = server(|options| options.unpulled_bytes = 100_000);
    let text = "x".repeat(40_000);
    let body = format!("[\"push\",[\"pipeline\",0,[\"keepWaiting\"],[\"{text}\"]]]");
    for _ in 0..10 {
        assert_eq!(serve_batch(&server, &body).await, "");
    }
    let stats = server.stats();
    assert_eq!(stats.sessions, 2, "{stats:?}");
    assert!(stats.held_bytes < 100_000, "{stats:?}");
}
