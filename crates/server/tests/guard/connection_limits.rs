//! Nobody is kept out by the connections and passwords of others.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use turnstone_server::{Credentials, RequestLimits};

use crate::other_user::OtherUser;
use crate::support::ServerFixture;

const LONG: Duration = Duration::from_secs(60);
/// `opencode:s3cret` and `opencode:guess`, as a browser would say them.
const RIGHT: &str = "Basic b3BlbmNvZGU6czNjcmV0";
const WRONG: &str = "Basic b3BlbmNvZGU6Z3Vlc3M=";

fn server_with_password(change: impl FnOnce(&mut RequestLimits)) -> ServerFixture {
    ServerFixture::with_settings(|settings| {
        let (user, password) = ("opencode".to_owned(), "s3cret".to_owned());
        settings.credentials = Some(Credentials { user, password });
        change(&mut settings.limits);
    })
}

fn connect(house: &ServerFixture) -> TcpStream {
    let socket = TcpStream::connect(house.address()).expect("connects");
    socket.set_read_timeout(Some(LONG)).expect("a timeout");
    socket
}

/// The status of the answer that comes; `None` if the connection is closed without one.
fn status(socket: &mut TcpStream) -> Option<String> {
    let mut head = [0; 12];
    match socket.read_exact(&mut head) {
        Ok(()) => Some(String::from_utf8_lossy(&head[9..]).into_owned()),
        Err(error) => {
            let kind = error.kind();
            assert!(
                matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset),
                "{kind}"
            );
            None
        }
    }
}

#[test]
fn idle_connections_are_evicted_when_full() {
    let house = server_with_password(|limits| limits.connections = 32);
    let mut idle: Vec<TcpStream> = (0..200).map(|_| connect(&house)).collect();
    let client = house.client().with_header("authorization", RIGHT);
    for _ in 0..10 {
        client.get("/global/health").expect(200);
    }
    // The oldest were closed for the newest.
    assert_eq!(status(&mut idle[0]), None);
    let newest = idle.last_mut().expect("a connection");
    newest.write_all(b"GET /global/health HTTP/1.0\r\n\r\n").expect("sent");
    assert_eq!(status(newest).as_deref(), Some("401"));
}

#[test]
fn active_connections_are_not_evicted() {
    let house = ServerFixture::with_settings(|settings| settings.limits.connections = 4);
    let mut streams: Vec<_> = (0..4).map(|_| house.client().stream("/event")).collect();
    for stream in &mut streams {
        stream.wait_for("server.connected");
    }
    let mut refused = connect(&house);
    refused.write_all(b"GET /global/health HTTP/1.0\r\n\r\n").ok();
    assert!(matches!(status(&mut refused).as_deref(), Some("503") | None));
    drop(streams);
}

#[test]
fn right_password_is_accepted_while_wrong_ones_are_delayed() {
    let house = server_with_password(|_| {});
    let ask = |authorization: &str| {
        let mut socket = connect(&house);
        let head = format!(
            "GET /global/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: \
             {authorization}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).expect("sent");
        socket
    };
    let mut wrong: Vec<TcpStream> = (0..60).map(|_| ask(WRONG)).collect();
    for _ in 0..20 {
        assert_eq!(status(&mut ask(RIGHT)).as_deref(), Some("200"));
    }
    let reported: Vec<String> = wrong.iter_mut().filter_map(status).collect();
    assert_eq!(reported.len(), 60);
    assert!(reported.iter().all(|status| status == "401" || status == "429"), "{reported:?}");
    let delayed = reported.iter().filter(|status| *status == "401").count();
    assert!(delayed >= 16, "{delayed} answers were delayed");
}

#[test]
fn missing_password_is_not_counted_as_wrong() {
    let house = server_with_password(|_| {});
    for _ in 0..300 {
        assert_eq!(house.client().get("/global/health").status, 401);
    }
    house.client().with_header("authorization", RIGHT).get("/global/health").expect(200);
}

#[test]
fn other_user_cannot_exhaust_connections() {
    let house = server_with_password(|limits| limits.connections = 16);
    let port = house.address().port();
    let script = format!(
        "for i in {{1..100}}; do exec {{f}}<>/dev/tcp/127.0.0.1/{port}; done; echo held; read"
    );
    let other = OtherUser::start(&script).map(|mut other| {
        assert_eq!(other.line(), "held");
        other
    });
    let client = house.client().with_header("authorization", RIGHT);
    let mut streams: Vec<_> = (0..14).map(|_| client.stream("/event")).collect();
    for stream in &mut streams {
        stream.wait_for("server.connected");
    }
    client.get("/global/health").expect(200);
    drop(other);
}

#[test]
fn other_user_cannot_exhaust_streams() {
    let house = server_with_password(|limits| limits.streams = 2);
    let port = house.address().port();
    let script = format!(
        "for i in 1 2 3; do exec {{f}}<>/dev/tcp/127.0.0.1/{port}; printf 'GET /event HTTP/1.1\\r\\n\
         host: x\\r\\nauthorization: {RIGHT}\\r\\n\\r\\n' >&$f; read -r line <&$f; echo $line; done; read"
    );
    let other = OtherUser::start(&script).map(|mut other| {
        let lines: Vec<String> = (0..3).map(|_| other.line()).collect();
        let statuses: Vec<_> = lines.iter().map(|line| line.get(9..12).unwrap_or(line)).collect();
        assert_eq!(statuses, ["200", "200", "503"]);
        other
    });
    let client = house.client().with_header("authorization", RIGHT);
    let streams: Vec<_> = (0..2).map(|_| client.stream("/global/event")).collect();
    assert!(streams.iter().all(|stream| stream.status == 200));
    client.get("/event").expect(503);
    drop(other);
}
