//! Servers over streamable HTTP: the reference server, and scripted ones.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use turnstone_mcp::{ToolServerError, ToolServerStatus, ToolServerTransport};
use turnstone_testkit::required_tools;
use turnstone_testkit::scripted_server::{
    RecordedRequest, ReplyPiece, ScriptedServer, ServerReply,
};

use crate::fixture::{PoolFixture, act, call, names, reference_script, server, wait_until};

/// The reference server on a port of its own; it ends when this is dropped.
struct ReferenceServer {
    child: Child,
    url: String,
}

impl ReferenceServer {
    fn start() -> Self {
        // A port that was free may be taken by the time the server wants it.
        let started = (0..10).find_map(|_| Self::try_start());
        started.expect("the reference server started")
    }

    #[expect(clippy::disallowed_methods, reason = "the other end of the test is a program")]
    fn try_start() -> Option<Self> {
        let node = required_tools::find_program("node").expect("node");
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let mut child = Command::new(node)
            .arg(reference_script())
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let is_said = lines.any(|line| line.is_ok_and(|it| it.contains("listening on port")));
        // Its further complaints are read, so that it does not wait for them.
        std::thread::spawn(move || lines.for_each(drop));
        // It says so even if the port is taken, and ends then.
        while is_said && child.try_wait().expect("a state").is_none() {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Self { child, url: format!("http://127.0.0.1:{port}/mcp") });
            }
        }
        None
    }
}

impl Drop for ReferenceServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn remote(url: &str, headers: &[(&str, &str)]) -> turnstone_mcp::ToolServerSettings {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    server(ToolServerTransport::Remote {
        url: url.to_owned(),
        headers: headers.iter().map(own).collect(),
    })
}

#[test]
fn reference_server_answers_over_http_and_lists_changed_tools() {
    let reference = ReferenceServer::start();
    let fixture = PoolFixture::new();
    let server = fixture.connect(&remote(&reference.url, &[]));
    let echoed = call(&server, "echo", json!({"message": "hi"})).expect("answered");
    assert!(echoed.text.contains("hi"), "{echoed:?}");
    assert_eq!(call(&server, "get-tiny-image", json!({})).expect("answered").files.len(), 1);
    // The request for the roots comes on the stream of its own, and its answer brings a tool.
    wait_until("the list with the roots", || names(&server).contains(&"get-roots-list".to_owned()));
    drop(reference);
    let error = call(&server, "echo", json!({"message": "hi"})).expect_err("it is gone");
    assert!(!matches!(error, ToolServerError::Timeout { .. }), "{error:?}");
}

/// What a scripted server answers to the requests that every connection begins with.
fn greeting(request: &RecordedRequest) -> Option<ServerReply> {
    if request.method != "POST" {
        return Some(ServerReply::json(405, "{}"));
    }
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let answer = |result: Value| {
        let text = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
        ServerReply::json(200, &text).with_header("mcp-session-id", "session-1")
    };
    match body["method"].as_str() {
        Some("initialize") => Some(answer(json!({"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}))),
        Some("tools/list") => {
            let tool = json!({"name": "act", "inputSchema": {"type": "object"}});
            Some(answer(json!({"tools": [tool]})))
        }
        Some("tools/call") => None,
        _ => Some(ServerReply::json(202, "")),
    }
}

/// A server that answers calls of tools with `answer`, which gets the id of the call.
fn scripted(answer: impl Fn(&Value) -> ServerReply + Send + Sync + 'static) -> ScriptedServer {
    let reply = move |request: &RecordedRequest| {
        greeting(request).unwrap_or_else(|| {
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            answer(&body["id"])
        })
    };
    ScriptedServer::start(reply).expect("started")
}

fn done(id: &Value) -> String {
    let result = json!({"content": [{"type": "text", "text": "done"}]});
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

#[test]
fn headers_session_and_version_go_with_every_request() {
    let scripted = scripted(|id| {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": "info", "data": "x"}});
        let text = format!("event: message\ndata: {note}\n\n: ping\n\ndata: {}\n\n", done(id));
        ServerReply::events(&text).in_pieces_of(7)
    });
    let fixture = PoolFixture::new();
    let url = format!("{}/mcp", scripted.url());
    let server = fixture.connect(&remote(&url, &[("authorization", "Bearer t0ken")]));
    assert_eq!(act(&server).expect("answered").text, "done");
    fixture.pool.close();
    wait_until("the end of the session", || {
        scripted.requests().iter().any(|request| request.method == "DELETE")
    });
    let requests = scripted.requests();
    let header = |request: &RecordedRequest, name: &str| request.header(name).map(str::to_owned);
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(header(request, "authorization").as_deref(), Some("Bearer t0ken"));
        let session = header(request, "mcp-session-id");
        assert_eq!(session.as_deref(), (number > 0).then_some("session-1"), "{number}");
    }
    let call = requests.iter().find(|it| String::from_utf8_lossy(&it.body).contains("tools/call"));
    let version = header(call.expect("a call"), "mcp-protocol-version");
    assert_eq!(version.as_deref(), Some("2025-06-18"));
}

#[test]
fn refused_authorization_is_a_status_of_its_own() {
    let scripted = ScriptedServer::start(|_| ServerReply::json(401, "{}")).expect("started");
    let fixture = PoolFixture::new();
    let error = fixture.fail_to_connect(&remote(&scripted.url(), &[]));
    assert_eq!(error, ToolServerError::NeedsAuthorization);
}

#[test]
fn broken_and_hostile_answers_are_errors() {
    let cut = scripted(|_| {
        let reply = ServerReply::events("data: {\"jsonrpc\"");
        reply.then(ReplyPiece::Cut)
    });
    let fixture = PoolFixture::new();
    let server = fixture.connect(&remote(&cut.url(), &[]));
    let error = act(&server).expect_err("cut");
    assert!(error.to_string().contains("without an answer"), "{error}");

    let failing = scripted(|_| ServerReply::json(500, "oh\u{1b}[31m no"));
    let server = fixture.connect(&remote(&failing.url(), &[]));
    let error = act(&server).expect_err("500");
    assert!(error.to_string().contains("HTTP status 500: oh[31m no"), "{error}");

    let elsewhere = ScriptedServer::start(|_| ServerReply::json(200, "{}")).expect("started");
    let target = elsewhere.url();
    let moved =
        ScriptedServer::start(move |_| ServerReply::json(307, "").with_header("location", &target));
    let moved = moved.expect("started");
    let settings = remote(&moved.url(), &[("authorization", "t0ken")]);
    fixture.fail_to_connect(&settings);
    assert!(elsewhere.requests().is_empty(), "no key follows a redirect to another host");

    let huge = scripted(|_| {
        let mut reply = ServerReply::events("data: ");
        for _ in 0..20 {
            reply = reply.then(ReplyPiece::Bytes(vec![b'x'; 1 << 20]));
        }
        reply
    });
    let server = fixture.connect(&remote(&huge.url(), &[]));
    let error = act(&server).expect_err("too long");
    assert!(error.to_string().contains("more than 16 MiB"), "{error}");
}

#[test]
fn lost_session_begins_again() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let scripted =
        scripted(move |id| match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => ServerReply::json(404, "{}"),
            _ => ServerReply::json(200, &done(id)),
        });
    let fixture = PoolFixture::new();
    let server = fixture.connect(&remote(&scripted.url(), &[]));
    let error = act(&server).expect_err("lost");
    assert!(error.to_string().contains("session is over"), "{error}");
    wait_until("another session", || {
        server.start();
        server.status() == ToolServerStatus::Connected
    });
    assert_eq!(act(&server).expect("answered").text, "done");
}

#[test]
fn cancelled_and_late_calls_close_their_connection() {
    let scripted = scripted(|_| {
        let mut reply = ServerReply::events(": wait\n\n");
        reply = reply.then(ReplyPiece::WaitForClose);
        reply
    });
    let fixture = PoolFixture::new();
    let mut settings = remote(&scripted.url(), &[]);
    settings.call_timeout = Duration::from_millis(100);
    let server = fixture.connect(&settings);
    let error = act(&server).expect_err("late");
    assert_eq!(error, ToolServerError::Timeout { limit: settings.call_timeout });
    wait_until("the notice", || {
        let is_notice = |it: &RecordedRequest| {
            String::from_utf8_lossy(&it.body).contains("notifications/cancelled")
        };
        scripted.requests().iter().any(is_notice)
    });
    assert_eq!(server.status(), ToolServerStatus::Connected);
}
