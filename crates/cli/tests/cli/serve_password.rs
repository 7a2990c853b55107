//! The password of `turnstone serve`, and the Unix socket that needs none.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use crate::case::Case;
use crate::serve_start::{Started, start};

/// `opencode:hush-hush`, as a browser would say it.
const HUSH: &str = "authorization: Basic b3BlbmNvZGU6aHVzaC1odXNo\r\n";

fn status(started: &Started, head: &str) -> String {
    let mut socket = TcpStream::connect(&started.address).expect("connects");
    let ask = format!("GET /global/health HTTP/1.0\r\nhost: localhost\r\n{head}\r\n");
    socket.write_all(ask.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer.get(9..12).unwrap_or_default().to_owned()
}

fn is_locked(started: &Started) {
    assert_eq!(status(started, ""), "401");
    assert_eq!(status(started, HUSH), "200");
}

fn proc_file(started: &Started, name: &str) -> String {
    let bytes = fs_err::read(format!("/proc/{}/{name}", started.child.id())).expect("read");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn the_environment_of_the_server_holds_no_password() {
    for name in ["TURNSTONE_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"] {
        let case = Case::empty();
        let started = start(&case, &["serve", "--port", "0", "--json"], |command| {
            command.env(name, "hush-hush").env("KEPT", "yes").stderr(Stdio::null());
        });
        is_locked(&started);
        let environ = proc_file(&started, "environ");
        assert!(!environ.contains("hush") && !environ.contains("PASSWORD"), "{environ:?}");
        assert!(environ.contains("KEPT=yes"), "{environ:?}");
        assert!(!proc_file(&started, "cmdline").contains("hush"));
        assert_eq!(started.ready["pid"], json!(started.child.id()), "the process stays the same");
    }
}

#[test]
fn our_variable_goes_before_the_one_of_opencode() {
    let case = Case::empty();
    let started = start(&case, &["serve", "--port", "0", "--json"], |command| {
        command.env("TURNSTONE_SERVER_PASSWORD", "hush-hush");
        command.env("OPENCODE_SERVER_PASSWORD", "other").stderr(Stdio::null());
    });
    is_locked(&started);
    assert!(!proc_file(&started, "environ").contains("other"));
}

fn write_password(path: &Path, mode: u32) {
    fs_err::write(path, "hush-hush\n").expect("written");
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

#[test]
fn a_password_file_is_read_if_only_its_owner_can_read_it() {
    let case = Case::empty();
    let file = case.place("password");
    let path = file.to_string_lossy().into_owned();
    write_password(&file, 0o600);
    let args = ["serve", "--port", "0", "--json", "--password-file", &path];
    let started = start(&case, &args, |command| {
        command.env("OPENCODE_SERVER_PASSWORD", "other").stderr(Stdio::null());
    });
    is_locked(&started);
    assert!(!proc_file(&started, "environ").contains("other"));
    drop(started);

    write_password(&file, 0o640);
    let ran = case.run(&args);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("other users can read"), "{}", ran.err);
    assert!(ran.err.contains("chmod 600"), "{}", ran.err);
    for missing in ["/dev/zero", "/", &case.place("nowhere/file").to_string_lossy()] {
        let ran = case.run(&["serve", "--port", "0", "--password-file", missing]);
        assert_eq!(ran.code, 1, "{missing}: {}", ran.err);
    }
}

#[test]
fn a_password_comes_from_standard_input_where_that_is_asked_for() {
    let case = Case::empty();
    let file = case.place("password");
    write_password(&file, 0o644);
    let args = ["serve", "--port", "0", "--json", "--password-stdin"];
    let started = start(&case, &args, |command| {
        command.stdin(fs_err::File::open(&file).expect("opened").into_parts().0);
        command.stderr(Stdio::null());
    });
    is_locked(&started);
    let ran = case.run(&["serve", "--port", "0", "--password-stdin"]);
    assert_eq!(ran.code, 1, "an empty password is none: {}", ran.err);
}

fn quiet(command: &mut std::process::Command) {
    command.stderr(Stdio::null());
}

fn over_socket(path: &str) -> String {
    let mut socket = UnixStream::connect(path).expect("connects");
    socket.write_all(b"GET /turnstone/server HTTP/1.0\r\n\r\n").expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn two_servers_on_one_data_directory_have_a_unix_socket_each() {
    let case = Case::empty();
    let locked = |command: &mut std::process::Command| {
        command.env("TURNSTONE_SERVER_PASSWORD", "hush-hush").stderr(Stdio::null());
    };
    let args = ["serve", "--port", "0", "--json"];
    let (one, two) = (start(&case, &args, locked), start(&case, &args, locked));
    for (started, name) in [(&one, "server.sock"), (&two, "server-2.sock")] {
        is_locked(started);
        let path = started.ready["socket"].as_str().expect("a path");
        assert_eq!(Path::new(path), case.data().join("socket").join(name));
        let answer = over_socket(path);
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        assert!(answer.contains(&format!("\"pid\":{}", started.child.id())), "{answer}");
    }
    // A killed server leaves its name behind; the next one takes it.
    drop(one);
    let three = start(&case, &args, locked);
    assert_eq!(three.ready["socket"], json!(case.data().join("socket/server.sock")));
}

#[test]
fn the_unix_socket_can_be_elsewhere_or_left_out() {
    let case = Case::empty();
    let place = tempfile::Builder::new().prefix("ts-").tempdir().expect("a directory");
    let path = place.path().join("t.sock").to_string_lossy().into_owned();
    let args = ["serve", "--port", "0", "--json", "--socket", &path];
    let started = start(&case, &args, quiet);
    assert_eq!(started.ready["socket"], json!(path));
    assert!(over_socket(&path).starts_with("HTTP/1.0 200"));
    let ran = case.run(&args);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("another server listens on"), "{}", ran.err);
    drop(started);

    let args = ["serve", "--port", "0", "--json", "--no-socket"];
    let started = start(&case, &args, quiet);
    assert_eq!(started.ready["socket"], json!(null));
    assert_eq!(status(&started, ""), "200");
}
