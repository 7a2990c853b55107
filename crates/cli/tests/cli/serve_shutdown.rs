//! `turnstone serve` ends when it is asked to, whatever it is doing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::fixture::CliFixture;
use crate::serve_process::{ServeProcess, start_serve};

/// The status of a program that must end; one that does not is a failure.
pub(crate) fn wait_for_exit(child: &mut Child) -> ExitStatus {
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
pub(crate) fn send_signals(child: &Child, names: &[&str]) {
    let script: String = names.iter().map(|name| format!("kill -s {name} $0 && ")).collect();
    let script = format!("{script}true");
    let sent = Command::new("/bin/sh").args(["-c", &script, &child.id().to_string()]).status();
    assert!(sent.expect("runs").success());
}

pub(crate) fn open_request(started: &ServeProcess, head: &str) -> TcpStream {
    let mut socket = TcpStream::connect(&started.address).expect("connects");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    socket.write_all(head.as_bytes()).expect("sent");
    socket
}

fn post_request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn create_session(started: &ServeProcess) -> String {
    let socket = open_request(
        started,
        &post_request("/session", "{}").replace("host:", "connection: close\r\nhost:"),
    );
    let mut answer = String::new();
    BufReader::new(socket).read_to_string(&mut answer).expect("an answer");
    let body = answer.split("\r\n\r\n").nth(1).expect("a body");
    let session: Value = serde_json::from_str(body).expect("JSON");
    session["id"].as_str().expect("an id").to_owned()
}

/// Starts a command that runs for long; returns its open request and the number of its process.
fn start_long_command(case: &CliFixture, started: &ServeProcess) -> (TcpStream, u32) {
    let session = create_session(started);
    let body = r#"{"agent":"build","command":"echo $$ > number.new; mv number.new number; exec sleep 1000"}"#;
    let socket = open_request(started, &post_request(&format!("/session/{session}/shell"), body));
    let file = case.path("p").join("number");
    (socket, await_pid(&file))
}

pub(crate) fn await_pid(file: &Path) -> u32 {
    for _ in 0..600 {
        if let Ok(text) = fs_err::read_to_string(file) {
            return text.trim().parse().expect("a number");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the command did not begin in 60 s");
}

pub(crate) fn await_process_exit(process: u32) {
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
fn sigterm_ends_server_despite_running_work() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p").join("long.txt"), "A".repeat(4 << 20)).expect("written");
    let mut started = start_serve(&case, &["serve", "--port", "0", "--json"], |_| {});
    let stream = open_request(&started, "GET /event HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut lines = BufReader::new(stream);
    lines.read_line(&mut String::new()).expect("a line");
    // Searches that take long, a client that never reads its answers, and a command that runs.
    let search = "GET /find?pattern=.*%5B%5EA-Z%5D%7C%5BA-Z%5D HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let searches: Vec<_> = (0..4).map(|_| open_request(&started, search)).collect();
    let unread = "GET /doc HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(64);
    let unread = open_request(&started, &unread);
    let (command, process) = start_long_command(&case, &started);

    send_signals(&started.child, &["TERM"]);

    assert!(wait_for_exit(&mut started.child).success());
    await_process_exit(process);
    drop((lines, searches, unread, command));
}

#[test]
fn second_signal_ends_server_immediately() {
    let case = CliFixture::empty();
    let mut started = start_serve(&case, &["serve", "--port", "0", "--json"], |_| {});
    // An open request: after the first signal the server would wait for it.
    let (command, process) = start_long_command(&case, &started);

    send_signals(&started.child, &["TERM", "INT"]);

    let code = wait_for_exit(&mut started.child).code();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    await_process_exit(process);
    drop(command);
}

#[test]
fn early_client_disconnect_does_not_stop_server() {
    let case = CliFixture::empty();
    let mut started = start_serve(&case, &["serve", "--port", "0", "--json"], |command| {
        command.stderr(Stdio::null());
    });
    for _ in 0..20 {
        drop(open_request(&started, "GET /doc HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    }
    let mut answer = String::new();
    let mut last = open_request(&started, "GET /global/health HTTP/1.0\r\nhost: localhost\r\n\r\n");
    last.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    send_signals(&started.child, &["INT"]);
    assert!(wait_for_exit(&mut started.child).success());
}
