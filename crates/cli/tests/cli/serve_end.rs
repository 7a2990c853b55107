//! `turnstone serve` ends when it is asked to, whatever it is doing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::case::Case;
use crate::serve_start::{Started, start};

/// The status of a program that must end; one that does not is a failure.
pub(crate) fn end_of(child: &mut Child) -> ExitStatus {
    for _ in 0..600 {
        if let Some(status) = child.try_wait().expect("waited") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().expect("killed");
    panic!("the server did not end in 60 s");
}

/// Sends signals one right after the other: the shell does it without starting a program for each.
#[expect(clippy::disallowed_methods, reason = "the system sends the signals")]
pub(crate) fn signal(child: &Child, names: &[&str]) {
    let script: String = names.iter().map(|name| format!("kill -s {name} $0 && ")).collect();
    let script = format!("{script}true");
    let sent = Command::new("/bin/sh").args(["-c", &script, &child.id().to_string()]).status();
    assert!(sent.expect("runs").success());
}

pub(crate) fn open(started: &Started, head: &str) -> TcpStream {
    let mut socket = TcpStream::connect(&started.address).expect("connects");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    socket.write_all(head.as_bytes()).expect("sent");
    socket
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn create_session(started: &Started) -> String {
    let socket =
        open(started, &post("/session", "{}").replace("host:", "connection: close\r\nhost:"));
    let mut answer = String::new();
    BufReader::new(socket).read_to_string(&mut answer).expect("an answer");
    let body = answer.split("\r\n\r\n").nth(1).expect("a body");
    let session: Value = serde_json::from_str(body).expect("JSON");
    session["id"].as_str().expect("an id").to_owned()
}

/// Starts a command that runs for long; returns its open request and the number of its process.
fn run_long(case: &Case, started: &Started) -> (TcpStream, u32) {
    let session = create_session(started);
    let body = r#"{"agent":"build","command":"echo $$ > number.new; mv number.new number; exec sleep 1000"}"#;
    let socket = open(started, &post(&format!("/session/{session}/shell"), body));
    let file = case.place("p").join("number");
    (socket, await_number(&file))
}

pub(crate) fn await_number(file: &Path) -> u32 {
    for _ in 0..600 {
        if let Ok(text) = fs_err::read_to_string(file) {
            return text.trim().parse().expect("a number");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the command did not begin in 60 s");
}

pub(crate) fn await_gone(process: u32) {
    let stat = format!("/proc/{process}/stat");
    for _ in 0..600 {
        let state = fs_err::read_to_string(&stat).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the command did not end in 60 s");
}

#[test]
fn sigterm_ends_the_server_whatever_runs() {
    let case = Case::empty();
    fs_err::write(case.place("p").join("long.txt"), "A".repeat(4 << 20)).expect("written");
    let mut started = start(&case, &["serve", "--port", "0", "--json"], |_| {});
    let stream = open(&started, "GET /event HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut lines = BufReader::new(stream);
    lines.read_line(&mut String::new()).expect("a line");
    // Searches that take long, a client that never reads its answers, and a command that runs.
    let search = "GET /find?pattern=.*%5B%5EA-Z%5D%7C%5BA-Z%5D HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let searches: Vec<_> = (0..4).map(|_| open(&started, search)).collect();
    let unread = "GET /doc HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(64);
    let unread = open(&started, &unread);
    let (command, process) = run_long(&case, &started);

    signal(&started.child, &["TERM"]);

    assert!(end_of(&mut started.child).success());
    await_gone(process);
    drop((lines, searches, unread, command));
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let case = Case::empty();
    let mut started = start(&case, &["serve", "--port", "0", "--json"], |_| {});
    // An open request: after the first signal the server would wait for it.
    let (command, process) = run_long(&case, &started);

    signal(&started.child, &["TERM", "INT"]);

    let code = end_of(&mut started.child).code();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    await_gone(process);
    drop(command);
}

#[test]
fn a_client_that_closes_early_does_not_end_the_server() {
    let case = Case::empty();
    let mut started = start(&case, &["serve", "--port", "0", "--json"], |command| {
        command.stderr(Stdio::null());
    });
    for _ in 0..20 {
        drop(open(&started, "GET /doc HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    }
    let mut answer = String::new();
    let mut last = open(&started, "GET /global/health HTTP/1.0\r\nhost: localhost\r\n\r\n");
    last.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    signal(&started.child, &["INT"]);
    assert!(end_of(&mut started.child).success());
}
