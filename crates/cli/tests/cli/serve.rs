//! `turnstone serve` as a program: its output, secrets it never prints, and its use of the system.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::fixture::CliFixture;
use crate::serve_shell::await_ready;

/// `opencode:hush-hush`, as a browser would say it.
const BASIC_TOKEN: &str = "b3BlbmNvZGU6aHVzaC1odXNo";

#[expect(clippy::disallowed_methods, reason = "assert_cmd cannot leave a program running")]
fn start_server(case: &CliFixture, command: &str) -> (Child, String) {
    let mut child = Command::new("/bin/sh")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", case.path("home"))
        .env("TURNSTONE_DATA", case.data_dir())
        .env("TURNSTONE_SERVER_PASSWORD", "hush-hush")
        .current_dir(case.path("p"))
        .args(["-c", &command.replace("turnstone", env!("CARGO_BIN_EXE_turnstone"))])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let address = await_ready(&mut child);
    (child, address)
}

fn get(address: &str, path: &str, head: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("connects");
    let asked =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n");
    socket.write_all(asked.as_bytes()).expect("asked");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Its stderr after it was stopped.
#[expect(clippy::disallowed_methods, reason = "the system sends the signal")]
fn stop_and_read_stderr(mut child: Child) -> String {
    let stopped = Command::new("kill").arg(child.id().to_string()).status().expect("runs");
    assert!(stopped.success());
    let mut stderr = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut stderr).expect("text");
    assert!(child.wait().expect("ends").success(), "{stderr}");
    stderr
}

fn send_sample_requests(address: &str) {
    let basic = format!("authorization: Basic {BASIC_TOKEN}\r\n");
    assert!(get(address, "/global/health", &basic).starts_with("HTTP/1.1 200"));
    let path = format!("/session?auth_token={BASIC_TOKEN}&search=needle");
    assert!(get(address, &path, "").starts_with("HTTP/1.1 200"));
    assert!(get(address, "/agent", "authorization: Basic Z3Vlc3M6aHVzaA==\r\n").contains("401"));
    assert!(get(address, "/nowhere", &basic).starts_with("HTTP/1.1 404"));
}

#[test]
fn print_logs_logs_requests_without_secrets() {
    let case = CliFixture::empty();
    let (child, address) = start_server(&case, "exec turnstone serve --port 0 --json --print-logs");
    send_sample_requests(&address);
    let stderr = stop_and_read_stderr(child);
    for line in ["GET /global/health 200", "GET /session 200", "GET /agent 401", "GET /nowhere 404"]
    {
        assert!(stderr.contains(line), "{line} in {stderr}");
    }
    for secret in ["hush", BASIC_TOKEN, "Z3Vlc3M6aHVzaA", "needle", "auth_token"] {
        assert!(!stderr.contains(secret), "{secret} in {stderr}");
    }
}

#[test]
fn serve_prints_only_start_and_stop_without_print_logs() {
    let case = CliFixture::empty();
    let (child, address) = start_server(&case, "exec turnstone serve --port 0 --json");
    send_sample_requests(&address);
    let wanted = format!("turnstone: listening on http://{address}\nturnstone: stopped\n");
    assert_eq!(stop_and_read_stderr(child), wanted);
}

#[test]
fn serve_raises_the_open_file_limit() {
    let case = CliFixture::empty();
    let (child, _) = start_server(&case, "ulimit -Sn 256; exec turnstone serve --port 0 --json");
    let limits = fs_err::read_to_string(format!("/proc/{}/limits", child.id())).expect("limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (now, most) = (numbers.next().expect("a number"), numbers.next().expect("a number"));
    assert!(now >= most.min(4_096), "{line}");
    stop_and_read_stderr(child);
}

#[test]
fn invalid_cors_origin_is_refused() {
    let case = CliFixture::empty();
    for wrong in ["*", "app.example", "https://app.example/", "https://*.example", "HTTPS://A.b"] {
        let ran = case.run(&["serve", "--port", "0", "--cors", wrong]);
        assert_eq!(ran.code, 1, "{wrong}: {}", ran.err);
        assert!(ran.err.contains("is not a CORS origin"), "{}", ran.err);
    }
}

#[test]
fn idle_connections_do_not_exhaust_file_descriptors() {
    let case = CliFixture::empty();
    let (child, address) =
        start_server(&case, "ulimit -n 128; exec turnstone serve --port 0 --json");
    let idle: Vec<TcpStream> =
        (0..500).map(|_| TcpStream::connect(&address).expect("connects")).collect();
    for _ in 0..5 {
        send_sample_requests(&address);
    }
    let files = fs_err::read_dir(format!("/proc/{}/fd", child.id())).expect("listed").count();
    assert!(files < 128, "{files} files are open");
    drop(idle);
    stop_and_read_stderr(child);
}
