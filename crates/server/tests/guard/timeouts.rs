//! A client that is slow costs its own connection and nothing else.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::support::ServerFixture;

/// Far longer than the server is patient in these tests.
const LONG: Duration = Duration::from_secs(300);

fn server_with_short_timeouts() -> ServerFixture {
    ServerFixture::with_settings(|settings| {
        settings.limits.head_timeout_secs = 1;
        settings.limits.write_timeout_secs = 1;
    })
}

fn connect(house: &ServerFixture) -> TcpStream {
    let socket = TcpStream::connect(house.address()).expect("connects");
    socket.set_read_timeout(Some(LONG)).expect("a timeout");
    socket
}

/// True if the server closes the connection; a test that waits too long fails.
fn is_closed(mut socket: TcpStream) -> bool {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Waits until the server's end of a connection is not open any more, without reading from it.
fn await_closed_by_server(socket: &TcpStream) {
    let port = |address: std::net::SocketAddr| format!(":{:04X}", address.port());
    let server = port(socket.peer_addr().expect("connected"));
    let client = port(socket.local_addr().expect("connected"));
    // Local address, remote address, state; 01 is an established connection.
    let is_open = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let mut ends_with = |port: &str| fields.next().is_some_and(|it| it.ends_with(port));
        ends_with(&server) && ends_with(&client) && fields.next() == Some("01")
    };
    for _ in 0..2_400 {
        let table = fs_err::read_to_string("/proc/self/net/tcp").expect("a table");
        if !table.lines().any(is_open) {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("the server keeps a connection whose client reads nothing");
}

#[test]
fn incomplete_request_times_out() {
    let house = server_with_short_timeouts();
    let said: [&[u8]; 4] =
        [b"", b"GET /pa", b"GET /path HTTP/1.1\r\nhost: localhost\r\n", b"GET /path HTTP/1.1\r\nx"];
    for bytes in said {
        let mut socket = connect(&house);
        socket.write_all(bytes).expect("said");
        assert!(is_closed(socket), "{}", String::from_utf8_lossy(bytes));
    }
    house.client().get("/global/health").expect(200);
}

#[test]
fn idle_connection_is_closed_but_stream_is_kept() {
    let house = server_with_short_timeouts();
    let mut stream = house.client().stream("/event");
    stream.wait_for("server.connected");
    let mut idle = connect(&house);
    idle.write_all(b"GET /global/health HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("asked");
    assert!(is_closed(idle));
    // By now the stream is older than any request may be.
    house.client().post("/session", &json!({})).expect(200);
    stream.wait_for("session.created");
}

#[test]
fn stalled_client_is_disconnected() {
    let house = server_with_short_timeouts();
    let session = house.client().post("/session", &json!({})).expect(200);
    let path = format!("/session/{}/message", session["id"].as_str().expect("an id"));
    let body =
        json!({ "noReply": true, "parts": [{ "type": "text", "text": "x".repeat(8 << 20) }] });
    house.client().post(&path, &body).expect(200);
    let mut socket = connect(&house);
    // More than the buffers of two sockets hold: what is left waits for the client.
    let ask = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    socket.write_all(ask.repeat(8).as_bytes()).expect("asked");
    await_closed_by_server(&socket);
    let mut read = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(read < 8 * (8 << 20), "{read} bytes came: it was waited for");
    house.client().get("/global/health").expect(200);
}

#[test]
fn header_size_is_limited_and_two_hosts_are_rejected() {
    let house = ServerFixture::new();
    let long = house.client().with_header("x-long", &"x".repeat(300 << 10));
    assert_eq!(long.get("/global/health").status, 431);
    let fair = house.client().with_header("x-long", &"x".repeat(30 << 10));
    fair.get("/global/health").expect(200);
    let twice = house.client().with_header("host", "localhost").with_header("host", "evil.example");
    assert_eq!(twice.get("/global/health").expect(400)["_tag"], "InvalidHostError");
    let other = house.client().with_header("host", "evil.example");
    assert_eq!(other.get("/global/health").expect(421)["_tag"], "MisdirectedRequest");
}

#[test]
fn body_with_too_many_values_is_rejected_before_parsing() {
    let house = ServerFixture::new();
    for thing in ["0", "{}", "[]", "\"\""] {
        let body =
            format!("{{\"metadata\":{{\"a\":[{}{thing}]}}}}", format!("{thing},").repeat(600_000));
        let refused = house.client().send("POST", "/session", Some(body.as_bytes())).expect(413);
        assert_eq!(refused["_tag"], "TooLargeError", "{thing}");
    }
    let long = json!({ "title": ",[{".repeat(1 << 20) });
    house.client().post("/session", &long).expect(200);
    assert_eq!(house.client().get("/session").expect(200).as_array().map(Vec::len), Some(1));
}
