//! Only processes of the server's own user get through without a password.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use turnstone_server::{Credentials, SocketSetting};

use crate::other_user::as_other_user;
use crate::support::ServerFixture;

const LONG: Duration = Duration::from_secs(60);

/// `opencode:s3cret`, as a browser would say it.
const RIGHT: &str = "Basic b3BlbmNvZGU6czNjcmV0";

/// Opens a connection as descriptor 3 and sends `POST /session`.
fn post_session(house: &ServerFixture) -> String {
    let port = house.address().port();
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'POST /session HTTP/1.1\\r\\nhost: localhost\\r\\n\
         content-type: application/json\\r\\ncontent-length: 2\\r\\n\\r\\n{{}}' >&3"
    )
}

fn sessions(house: &ServerFixture) -> usize {
    house.client().get("/session").expect(200).as_array().expect("a list").len()
}

#[test]
fn other_user_is_rejected_with_a_hint() {
    let house = ServerFixture::new();
    let answer = as_other_user(&format!("{}; cat <&3", post_session(&house)));
    if let Some(answer) = answer {
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("ForbiddenPeerError"), "{answer}");
        assert!(answer.contains("TURNSTONE_SERVER_PASSWORD"), "{answer}");
    }
    assert_eq!(sessions(&house), 0);
    house.client().post("/session", &json!({})).expect(200);
    assert_eq!(sessions(&house), 1);
}

#[test]
fn other_user_closing_early_changes_nothing() {
    let house = ServerFixture::new();
    let ask = post_session(&house);
    for _ in 0..20 {
        as_other_user(&format!("for i in 1 2 3 4 5; do {ask}; exec 3>&-; done"));
    }
    // Requests after them are answered, so those before them have been seen.
    assert_eq!(sessions(&house), 0);
    house.client().get("/global/health").expect(200);
}

#[test]
fn early_close_by_same_user_is_harmless() {
    let house = ServerFixture::new();
    // This user's own, but closed: the row in the kernel's table names nobody any more. Whether the
    // server looks before or after the end is a race; either way the next request is answered.
    for _ in 0..50 {
        let mut socket = TcpStream::connect(house.address()).expect("connects");
        socket.write_all(b"GET /global/health HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    }
    house.client().get("/global/health").expect(200);
}

#[test]
fn short_and_long_connections_of_same_user_are_served() {
    let house = ServerFixture::new();
    for _ in 0..200 {
        house.client().get("/global/health").expect(200);
    }
    let mut socket = TcpStream::connect(house.address()).expect("connects");
    socket.set_read_timeout(Some(LONG)).expect("a timeout");
    for _ in 0..20 {
        socket.write_all(b"HEAD /global/health HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).expect("a byte");
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    }
    // The last request of a connection may be of HTTP/1.0.
    socket.write_all(b"GET /global/health HTTP/1.0\r\nhost: localhost\r\n\r\n").expect("sent");
    let mut rest = String::new();
    socket.read_to_string(&mut rest).expect("an answer");
    assert!(rest.starts_with("HTTP/1.0 200"), "{rest}");
}

fn server_with_password() -> ServerFixture {
    ServerFixture::with_settings(|settings| {
        let (user, password) = ("opencode".to_owned(), "s3cret".to_owned());
        settings.credentials = Some(Credentials { user, password });
    })
}

#[test]
fn other_user_with_password_is_served() {
    let house = server_with_password();
    let port = house.address().port();
    let ask = |head: &str| {
        as_other_user(&format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /global/health HTTP/1.1\\r\\n\
             host: localhost\\r\\nconnection: close\\r\\n{head}\\r\\n' >&3; cat <&3"
        ))
    };
    if let Some(answer) = ask(&format!("authorization: {RIGHT}\\r\\n")) {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let refused = ask("").expect("runs");
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    }
    assert_eq!(house.client().get("/global/health").status, 401);
    house.client().with_header("authorization", RIGHT).get("/global/health").expect(200);
}

fn socket_of(house: &ServerFixture) -> PathBuf {
    house.sibling("data/socket/server.sock")
}

fn over_socket(path: &std::path::Path, head: &str) -> String {
    let mut socket = UnixStream::connect(path).expect("connects");
    socket.set_read_timeout(Some(LONG)).expect("a timeout");
    socket.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn unix_socket_serves_owner_without_password() {
    let house = server_with_password();
    let path = socket_of(&house);
    let mode = |path: &std::path::Path| fs_err::metadata(path).expect("is there").mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().expect("a parent"))), (0o600, 0o700));
    let answer = over_socket(
        &path,
        "GET /turnstone/server HTTP/1.1\r\nhost: any.example\r\nconnection: close\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let body: serde_json::Value =
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    assert_eq!(body["socket"], json!(path));
    assert_eq!(body["url"], json!(format!("http://{}", house.address())));
    let reported =
        house.client().with_header("authorization", RIGHT).get("/turnstone/server").expect(200);
    assert_eq!(reported, body);
}

#[test]
fn other_user_cannot_use_the_unix_socket() {
    let place = tempfile::Builder::new().prefix("ts-").tempdir().expect("a directory");
    let path = place.path().join("open.sock");
    let house =
        ServerFixture::with_settings(|settings| settings.socket = SocketSetting::At(path.clone()));
    let all = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(place.path(), all()).expect("opened");
    fs_err::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .expect("opened");
    // Node is a client that speaks HTTP over a Unix socket by itself.
    let script = format!(
        "node -e 'const q = require(\"http\").get({{ socketPath: \"{}\", path: \"/global/health\" }}, \
         (r) => {{ console.log(r.statusCode); r.resume() }}); q.on(\"error\", (e) => console.log(e.code))'",
        path.display()
    );
    if let Some(said) = as_other_user(&script) {
        assert_eq!(said.trim(), "403");
    }
    let answer = over_socket(&path, "GET /global/health HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    drop(house);
    assert!(!path.exists(), "the socket is removed at the end");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the real clients are other programs")]
fn curl_and_node_reach_the_server_over_the_unix_socket() {
    let house = ServerFixture::new();
    let path = socket_of(&house);
    let script = format!(
        "const q = require('http').request({{ socketPath: {path:?}, path: '/session', method: 'POST',\
         headers: {{ 'content-type': 'application/json' }} }}, (r) => {{ console.log(r.statusCode);\
         r.resume() }}); q.end('{{}}')"
    );
    let node = Command::new("node").args(["-e", &script]).output().expect("node runs");
    assert_eq!(String::from_utf8_lossy(&node.stdout).trim(), "200", "{node:?}");
    let curl = Command::new("curl")
        .args(["-sS", "--unix-socket", &path.to_string_lossy(), "http://localhost/session"])
        .output();
    // curl is not among the programs the tests need; where it is, it works.
    if let Ok(curl) = curl {
        let listed: serde_json::Value = serde_json::from_slice(&curl.stdout).expect("JSON");
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "{curl:?}");
    }
    assert_eq!(sessions(&house), 1);
}
