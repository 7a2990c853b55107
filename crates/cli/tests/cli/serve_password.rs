//! The password of `turnstone serve`, and the Unix socket that needs none.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use crate::fixture::CliFixture;
use crate::serve_process::{ServeProcess, start_serve};

/// `opencode:hush-hush`, as a browser would say it.
const AUTHORIZATION_HEADER: &str = "authorization: Basic b3BlbmNvZGU6aHVzaC1odXNo\r\n";

fn response_status(started: &ServeProcess, head: &str) -> String {
    let mut socket = TcpStream::connect(&started.address).expect("connects");
    let ask = format!("GET /global/health HTTP/1.0\r\nhost: localhost\r\n{head}\r\n");
    socket.write_all(ask.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer.get(9..12).unwrap_or_default().to_owned()
}

fn assert_password_required(started: &ServeProcess) {
    assert_eq!(response_status(started, ""), "401");
    assert_eq!(response_status(started, AUTHORIZATION_HEADER), "200");
}

fn proc_file(started: &ServeProcess, name: &str) -> String {
    let bytes = fs_err::read(format!("/proc/{}/{name}", started.child.id())).expect("read");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn server_environment_contains_no_password() {
    for name in ["TURNSTONE_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"] {
        let case = CliFixture::empty();
        let started = start_serve(&case, &["serve", "--port", "0", "--json"], |command| {
            command.env(name, "hush-hush").env("KEPT", "yes").stderr(Stdio::null());
        });
        assert_password_required(&started);
        let environ = proc_file(&started, "environ");
        assert!(!environ.contains("hush") && !environ.contains("PASSWORD"), "{environ:?}");
        assert!(environ.contains("KEPT=yes"), "{environ:?}");
        assert!(!proc_file(&started, "cmdline").contains("hush"));
        assert_eq!(
            started.ready_line["pid"],
            json!(started.child.id()),
            "the process stays the same"
        );
    }
}

#[test]
fn turnstone_password_variable_overrides_opencodes() {
    let case = CliFixture::empty();
    let started = start_serve(&case, &["serve", "--port", "0", "--json"], |command| {
        command.env("TURNSTONE_SERVER_PASSWORD", "hush-hush");
        command.env("OPENCODE_SERVER_PASSWORD", "other").stderr(Stdio::null());
    });
    assert_password_required(&started);
    assert!(!proc_file(&started, "environ").contains("other"));
}

fn write_password(path: &Path, mode: u32) {
    fs_err::write(path, "hush-hush\n").expect("written");
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

#[test]
fn password_file_must_be_private() {
    let case = CliFixture::empty();
    let file = case.path("password");
    let path = file.to_string_lossy().into_owned();
    write_password(&file, 0o600);
    let args = ["serve", "--port", "0", "--json", "--password-file", &path];
    let started = start_serve(&case, &args, |command| {
        command.env("OPENCODE_SERVER_PASSWORD", "other").stderr(Stdio::null());
    });
    assert_password_required(&started);
    assert!(!proc_file(&started, "environ").contains("other"));
    drop(started);

    write_password(&file, 0o640);
    let ran = case.run(&args);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("other users can read"), "{}", ran.err);
    assert!(ran.err.contains("chmod 600"), "{}", ran.err);
    for missing in ["/dev/zero", "/", &case.path("nowhere/file").to_string_lossy()] {
        let ran = case.run(&["serve", "--port", "0", "--password-file", missing]);
        assert_eq!(ran.code, 1, "{missing}: {}", ran.err);
    }
}

#[test]
fn password_stdin_reads_the_password() {
    let case = CliFixture::empty();
    let file = case.path("password");
    write_password(&file, 0o644);
    let args = ["serve", "--port", "0", "--json", "--password-stdin"];
    let started = start_serve(&case, &args, |command| {
        command.stdin(fs_err::File::open(&file).expect("opened").into_parts().0);
        command.stderr(Stdio::null());
    });
    assert_password_required(&started);
    let ran = case.run(&["serve", "--port", "0", "--password-stdin"]);
    assert_eq!(ran.code, 1, "an empty password is rejected: {}", ran.err);
}

fn discard_stderr(command: &mut std::process::Command) {
    command.stderr(Stdio::null());
}

fn get_over_unix_socket(path: &str) -> String {
    let mut socket = UnixStream::connect(path).expect("connects");
    socket.write_all(b"GET /turnstone/server HTTP/1.0\r\n\r\n").expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn two_servers_get_separate_unix_sockets() {
    let case = CliFixture::empty();
    let locked = |command: &mut std::process::Command| {
        command.env("TURNSTONE_SERVER_PASSWORD", "hush-hush").stderr(Stdio::null());
    };
    let args = ["serve", "--port", "0", "--json"];
    let (one, two) = (start_serve(&case, &args, locked), start_serve(&case, &args, locked));
    for (started, name) in [(&one, "server.sock"), (&two, "server-2.sock")] {
        assert_password_required(started);
        let path = started.ready_line["socket"].as_str().expect("a path");
        assert_eq!(Path::new(path), case.data_dir().join("socket").join(name));
        let answer = get_over_unix_socket(path);
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        assert!(answer.contains(&format!("\"pid\":{}", started.child.id())), "{answer}");
    }
    // A killed server leaves its name behind; the next one takes it.
    drop(one);
    let three = start_serve(&case, &args, locked);
    assert_eq!(three.ready_line["socket"], json!(case.data_dir().join("socket/server.sock")));
}

#[test]
fn unix_socket_can_be_moved_or_disabled() {
    let case = CliFixture::empty();
    let place = tempfile::Builder::new().prefix("ts-").tempdir().expect("a directory");
    let path = place.path().join("t.sock").to_string_lossy().into_owned();
    let args = ["serve", "--port", "0", "--json", "--socket", &path];
    let started = start_serve(&case, &args, discard_stderr);
    assert_eq!(started.ready_line["socket"], json!(path));
    assert!(get_over_unix_socket(&path).starts_with("HTTP/1.0 200"));
    let ran = case.run(&args);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("another server listens on"), "{}", ran.err);
    drop(started);

    let args = ["serve", "--port", "0", "--json", "--no-socket"];
    let started = start_serve(&case, &args, discard_stderr);
    assert_eq!(started.ready_line["socket"], json!(null));
    assert_eq!(response_status(&started, ""), "200");
}
