//! The name of a request: repeated, contradictory and foreign names, over raw sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use turnstone_server::Credentials;

use crate::support::ServerFixture;

fn locked() -> ServerFixture {
    ServerFixture::with_settings(|settings| {
        let (user, password) = ("opencode".to_owned(), "s3cret".to_owned());
        settings.credentials = Some(Credentials { user, password });
    })
}

/// Sends a request head as it is and returns the status and the whole answer.
fn send_raw(house: &ServerFixture, head: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(house.address()).expect("connects");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let port = house.address().port().to_string();
    let head = head.replace("PORT", &port).replace('\n', "\r\n");
    socket.write_all(format!("{head}\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer in 60 s");
    drop(socket.shutdown(Shutdown::Both));
    let status = answer.split(' ').nth(1).and_then(|text| text.parse().ok());
    (status.unwrap_or_else(|| panic!("no status in {answer:?}")), answer)
}

const CLOSE: &str = "connection: close";

#[test]
fn foreign_names_are_refused_without_a_password() {
    let house = ServerFixture::new();
    for host in
        ["evil.example", "evil.example:PORT", "localhost.evil.example", "0.0.0.0:PORT", "10.0.0.1"]
    {
        for method in ["GET", "OPTIONS"] {
            let head = format!("{method} /path HTTP/1.1\nhost: {host}\n{CLOSE}");
            let (status, answer) = send_raw(&house, &head);
            assert_eq!(status, 421, "{head}: {answer}");
        }
        // The target alone decides nothing either.
        let (status, answer) =
            send_raw(&house, &format!("GET http://{host}/path HTTP/1.1\nhost: {host}\n{CLOSE}"));
        assert_eq!(status, 421, "{host}: {answer}");
    }
    for host in ["localhost:PORT", "LOCALHOST", "127.0.0.1:PORT", "[::1]:PORT", "a.localhost:PORT"]
    {
        let (status, answer) =
            send_raw(&house, &format!("GET /path HTTP/1.1\nhost: {host}\n{CLOSE}"));
        assert_eq!(status, 200, "{host}: {answer}");
    }
}

#[test]
fn rebinding_page_is_refused_without_a_password() {
    let house = ServerFixture::new();
    for site in ["", "\nsec-fetch-site: same-origin", "\nsec-fetch-site: none"] {
        for method in ["GET", "POST", "OPTIONS"] {
            let head = format!(
                "{method} /session HTTP/1.1\nhost: evil.example:PORT\norigin: http://evil.example:PORT{site}\n{CLOSE}"
            );
            let (status, answer) = send_raw(&house, &head);
            assert_eq!(status, 403, "{head}: {answer}");
            assert!(!answer.contains("access-control-"), "{answer}");
        }
        // A GET of the page itself names no origin.
        let head = format!("GET /session HTTP/1.1\nhost: evil.example:PORT{site}\n{CLOSE}");
        assert_eq!(send_raw(&house, &head).0, 421, "{head}");
    }
    // A target of ours does not lend a foreign page our name, nor the other way round.
    for (target, host) in
        [("localhost:PORT", "evil.example:PORT"), ("evil.example:PORT", "localhost:PORT")]
    {
        let head = format!(
            "GET http://{target}/session HTTP/1.1\nhost: {host}\norigin: http://evil.example:PORT\n{CLOSE}"
        );
        let (status, answer) = send_raw(&house, &head);
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("InvalidHostError"), "{answer}");
    }
}

#[test]
fn rebinding_page_meets_the_password_if_there_is_one() {
    let house = locked();
    let head = format!(
        "GET /session HTTP/1.1\nhost: evil.example:PORT\norigin: http://evil.example:PORT\n{CLOSE}"
    );
    // Its browser keeps no credentials for this origin.
    let (status, answer) = send_raw(&house, &head);
    assert_eq!(status, 401, "{answer}");
    // A proxy has names that the server cannot know.
    let head = format!(
        "GET /session HTTP/1.1\nhost: box.example\nauthorization: Basic b3BlbmNvZGU6czNjcmV0\n{CLOSE}"
    );
    assert_eq!(send_raw(&house, &head).0, 200);
}

#[test]
fn invalid_and_contradictory_names_are_bad_requests() {
    for house in [ServerFixture::new(), locked()] {
        for head in [
            "GET /path HTTP/1.1",
            "GET /path HTTP/1.1\nhost: localhost\nhost: localhost",
            "GET /path HTTP/1.1\nhost: localhost\nhost: evil.example",
            "GET /path HTTP/1.1\nhost: localhost, evil.example",
            "GET /path HTTP/1.1\nhost: evil.example@localhost",
            "GET /path HTTP/1.1\nhost: localhost/evil",
            "GET http://localhost:PORT/path HTTP/1.1\nhost: localhost:1",
            "GET http://localhost/path HTTP/1.1\nhost: evil.example",
            "GET http://evil.example/path HTTP/1.1\nhost: localhost",
            "GET http://a@localhost/path HTTP/1.1\nhost: localhost",
        ] {
            let (status, answer) = send_raw(&house, &format!("{head}\n{CLOSE}"));
            assert_eq!(status, 400, "{head}: {answer}");
        }
    }
}

#[test]
fn absolute_target_that_agrees_with_host_is_answered() {
    let house = ServerFixture::new();
    for (target, host) in [("localhost:PORT", "LOCALHOST:PORT"), ("localhost", "localhost:80")] {
        let head = format!("GET http://{target}/path HTTP/1.1\nhost: {host}\n{CLOSE}");
        let (status, answer) = send_raw(&house, &head);
        assert_eq!(status, 200, "{head}: {answer}");
    }
    assert_eq!(send_raw(&house, "GET /path HTTP/1.0").0, 200);
}
