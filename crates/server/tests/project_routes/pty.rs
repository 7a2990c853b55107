//! Terminals over real sockets: what clients see, what hostile clients may not do, and what is left at the end.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_server::{Credentials, ServerSettings};

use crate::support::{ServerFixture, SocketFrame, TestClient, TestWebSocket};

const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";

fn supervisor() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    let profile = test.parent().and_then(std::path::Path::parent).expect("a build directory");
    let program = profile.join("examples/supervisor");
    assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
    program
}

fn server_with(change: impl FnOnce(&mut ServerSettings)) -> ServerFixture {
    ServerFixture::with_settings(|settings| {
        settings.program = supervisor();
        settings.variables.push((OsString::from(PASSWORD), OsString::from("pw")));
        change(settings);
    })
}

fn server() -> ServerFixture {
    server_with(|_| {})
}

/// A script of the shell in a terminal; its id.
fn start_script(client: &TestClient, path: &str, script: &str) -> String {
    let made = client.post(path, &json!({ "command": "/bin/sh", "args": ["-c", script] }));
    let made = made.expect(200);
    let info = if path == "/pty" { &made } else { &made["data"] };
    assert_eq!(info["status"], "running", "{made}");
    info["id"].as_str().expect("an id").to_owned()
}

fn connect(client: &TestClient, id: &str) -> TestWebSocket {
    TestWebSocket::open(client, &format!("/pty/{id}/connect"))
}

fn position(cursor: u64) -> SocketFrame {
    let mut frame = vec![0];
    frame.extend(json!({ "cursor": cursor }).to_string().into_bytes());
    SocketFrame::Binary(frame)
}

/// Reads until the output contains `wanted`; all of it.
fn read_until(socket: &mut TestWebSocket, wanted: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(wanted) {
        match socket.next() {
            SocketFrame::Text(text) => seen.push_str(&text),
            SocketFrame::Binary(_) => {}
            end @ (SocketFrame::Close(..) | SocketFrame::End) => {
                panic!("{end:?} before {wanted:?} in {seen:?}")
            }
        }
    }
    seen
}

/// Reads to the end of the connection: the output, and how it ended.
fn read_to_end(socket: &mut TestWebSocket) -> (String, SocketFrame) {
    let mut seen = String::new();
    loop {
        match socket.next() {
            SocketFrame::Text(text) => seen.push_str(&text),
            SocketFrame::Binary(_) => {}
            end @ (SocketFrame::Close(..) | SocketFrame::End) => return (seen, end),
        }
    }
}

fn is_alive(pid: &str) -> bool {
    let status = fs_err::read_to_string(format!("/proc/{}/stat", pid.trim()));
    status.is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_until_gone(pid: &str) {
    while is_alive(pid) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn terminal_takes_input_shows_output_and_reports_its_exit() {
    let house = server();
    let client = house.client();
    let (mut events, mut api) = (client.stream("/event"), client.stream("/api/event"));
    let id = start_script(client, "/pty", "read line; echo \"got $line\"; exit 7");
    let made = &events.wait_for("pty.created")["properties"]["info"];
    assert_eq!((&made["id"], &made["cwd"]), (&json!(id), &json!(house.project())));
    assert_eq!(made["title"], format!("Terminal {}", &id[id.len() - 4..]));
    assert_eq!(client.get("/pty").expect(200), json!([made]));
    assert_eq!(client.get(&format!("/pty/{id}")).expect(200), *made);

    let mut socket = connect(client, &id);
    assert_eq!(socket.next(), position(0));
    socket.send_text("abc\r");
    let (seen, end) = read_to_end(&mut socket);
    assert_eq!(
        (seen.as_str(), end),
        ("abc\r\ngot abc\r\n", SocketFrame::Close(1000, String::new()))
    );

    let exited = json!({ "id": id, "exitCode": 7 });
    assert_eq!(events.wait_for("pty.exited")["properties"], exited);
    let exited_api = api.wait_for("pty.exited");
    assert_eq!(exited_api["data"], exited);
    assert_eq!(exited_api["location"], json!({ "directory": house.project() }));
    let gone = client.get(&format!("/pty/{id}")).expect(404);
    assert_eq!((&gone["_tag"], &gone["ptyID"]), (&json!("PtyNotFoundError"), &json!(id)));
    assert_eq!(client.get("/pty").expect(200), json!([]));
}

#[test]
fn connections_begin_at_their_cursor() {
    let house = server();
    let id = start_script(house.client(), "/pty", "printf 'äöü😀x'; read line; echo after");
    read_until(&mut connect(house.client(), &id), "x");
    let open = |cursor: &str| {
        TestWebSocket::open(house.client(), &format!("/pty/{id}/connect?cursor={cursor}"))
    };
    for (cursor, text) in
        [("0", "äöü😀x"), ("3", "😀x"), ("5", "x"), ("abc", "äöü😀x"), ("-9", "äöü😀x")]
    {
        let mut socket = open(cursor);
        assert_eq!(socket.next(), SocketFrame::Text(text.to_owned()), "{cursor}");
        assert_eq!(socket.next(), position(6), "{cursor}");
    }
    let mut live: Vec<_> = ["-1", "6", "99999999999"].map(open).into();
    for socket in &mut live {
        assert_eq!(socket.next(), position(6));
    }
    live[0].send_text("\r");
    for socket in &mut live {
        assert!(read_until(socket, "after\r\n").ends_with("after\r\n"));
    }
}

#[test]
fn api_terminal_is_kept_until_it_is_removed() {
    let house = server();
    let client = house.client();
    let mut events = client.stream("/event");
    let id = start_script(client, "/api/pty", "kill -9 $$");
    events.wait_for("pty.exited");
    let path = format!("/api/pty/{id}");
    let info = client.get(&path).expect(200);
    let project = json!(house.project());
    assert_eq!(info["location"]["directory"], project);
    assert_eq!(
        (&info["data"]["status"], &info["data"]["exitCode"]),
        (&json!("exited"), &json!(137))
    );
    assert_eq!(client.get("/api/pty").expect(200)["data"], json!([info["data"]]));
    assert_eq!(client.get("/pty").expect(200), json!([]));
    let mut socket = TestWebSocket::open(client, &format!("{path}/connect"));
    assert_eq!(socket.next(), SocketFrame::Close(4404, "session exited".to_owned()));
    let change = json!({ "title": "late", "size": { "rows": 9, "cols": 9 } });
    let changed = client.send("PUT", &path, Some(change.to_string().as_bytes())).expect(200);
    assert_eq!(changed["data"]["title"], "late");
    assert_eq!(events.wait_for("pty.updated")["properties"]["info"], changed["data"]);
    assert_eq!(client.delete(&path).status, 204);
    assert_eq!(events.wait_for("pty.deleted")["properties"], json!({ "id": id }));
    assert_eq!(client.get(&path).expect(404)["_tag"], "PtyNotFoundError");
}

#[test]
fn terminal_has_size_directory_and_environment_without_the_password() {
    let house = server();
    house.write_file("src/lib.rs", "");
    let client = house.client();
    let made = client.post("/pty", &json!({ "cwd": "src", "title": "t", "env": { "FOO": "bar" } }));
    let made = made.expect(200);
    assert_eq!((&made["command"], &made["args"]), (&json!("/bin/sh"), &json!(["-l"])));
    let id = made["id"].as_str().expect("an id");
    let put =
        |body: Value| client.send("PUT", &format!("/pty/{id}"), Some(body.to_string().as_bytes()));
    assert_eq!(put(json!({ "size": { "rows": 30, "cols": 100 } })).expect(200), made);
    let mut socket = connect(client, id);
    socket.send_text(
        "stty size; pwd -P; echo \"[$FOO][$TERM][$OPENCODE_SERVER_PASSWORD]\"; echo e''nd\r",
    );
    let seen = read_until(&mut socket, "end\r\n");
    let directory = house.project().join("src").display().to_string();
    for wanted in ["30 100\r\n", &format!("{directory}\r\n"), "[bar][xterm-256color][]\r\n"] {
        assert!(seen.contains(wanted), "{wanted:?} in {seen:?}");
    }
    assert_eq!(put(json!({ "title": "" })).expect(200)["title"], "t");
    for (rows, cols) in [(json!(0), json!(1)), (json!(1.5), json!(1)), (json!(1), json!(4097))] {
        put(json!({ "size": { "rows": rows, "cols": cols } })).expect(400);
    }
    put(json!({ "size": { "rows": 5 } })).expect(400);
    put(json!({ "title": "x".repeat(1_001) })).expect(400);
}

#[test]
fn invalid_requests_start_nothing() {
    let house = server();
    let client = house.client();
    fs_err::os::unix::fs::symlink("/tmp", house.project().join("out")).expect("linked");
    house.write_file("file", "");
    let bodies = [
        json!({ "command": "no-such-program" }),
        json!({ "command": "/dev/null" }),
        json!({ "command": "a\0b" }),
        json!({ "command": 5 }),
        json!({ "args": [5] }),
        json!({ "env": { "A": 5 } }),
        json!({ "env": { "A=B": "5" } }),
        json!({ "cwd": "/tmp" }),
        json!({ "cwd": "../home" }),
        json!({ "cwd": "out" }),
        json!({ "cwd": "file" }),
        json!({ "cwd": "missing" }),
        json!({ "title": "x".repeat(1_001) }),
    ];
    for body in bodies {
        assert_eq!(client.post("/pty", &body).expect(400)["name"], "BadRequest", "{body}");
        let api = client.post("/api/pty", &body).expect(400);
        assert_eq!(api["_tag"], "InvalidRequestError", "{body}");
    }
    assert_eq!(client.send("POST", "/pty", None).status, 400);
    assert_eq!(client.get("/api/pty").expect(200)["data"], json!([]));

    let id = start_script(client, "/pty", "sleep 600");
    let elsewhere = format!("/pty/{id}?directory={}", house.home().display());
    client.get(&elsewhere).expect(404);
    client.delete(&elsewhere).expect(404);
    client.get(&format!("/pty/{id}/connect")).expect(400);
    client.get("/pty/pty_none/connect").expect(404);
    client.get("/pty/none").expect(400);
    client.delete("/pty/pty_none").expect(404);
}

#[test]
fn removed_terminal_ends_a_program_that_ignores_signals() {
    let house = server();
    let client = house.client();
    let id =
        start_script(client, "/pty", "trap '' HUP TERM; sleep 600 & echo $! $$; wait; sleep 600");
    let mut socket = connect(client, &id);
    let seen = read_until(&mut socket, "\n");
    let pids: Vec<&str> = seen.split_whitespace().collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_alive(pid)), "{seen:?}");
    assert_eq!(client.delete(&format!("/pty/{id}")).expect(200), true);
    assert_eq!(read_to_end(&mut socket).1, SocketFrame::Close(1000, String::new()));
    pids.iter().for_each(|pid| wait_until_gone(pid));
}

#[test]
fn stopping_the_server_or_disposing_the_instance_ends_terminals() {
    let house = server();
    let client = house.client().clone();
    let pid_of = |socket: &mut TestWebSocket| read_until(socket, "\n").trim().to_owned();
    let id = start_script(&client, "/api/pty", "echo $$; exec sleep 600");
    let mut disposed = TestWebSocket::open(&client, &format!("/api/pty/{id}/connect"));
    let first = pid_of(&mut disposed);
    client.post("/instance/dispose", &json!({})).expect(200);
    assert_eq!(read_to_end(&mut disposed).1, SocketFrame::Close(1000, String::new()));
    wait_until_gone(&first);
    assert_eq!(client.get("/api/pty").expect(200)["data"], json!([]));

    let id = start_script(&client, "/pty", "echo $$; exec sleep 600");
    let mut socket = connect(&client, &id);
    let second = pid_of(&mut socket);
    drop(house);
    assert!(!is_alive(&second), "the server waits for its terminals");
    assert!(matches!(read_to_end(&mut socket).1, SocketFrame::Close(1001, _)));
}

#[test]
fn ticket_opens_one_connection_without_the_password() {
    let user = "opencode".to_owned();
    let house = server_with(|settings| {
        settings.credentials = Some(Credentials { user, password: "pw".to_owned() });
    });
    let anonymous = house.client();
    let client = anonymous.with_header("authorization", "Basic b3BlbmNvZGU6cHc=");
    let (one, other) = (start_script(&client, "/pty", "cat"), start_script(&client, "/pty", "cat"));
    let refused =
        |path: &str| TestWebSocket::try_open(anonymous, path).expect_err("refused").status;
    let connect = |id: &str, ticket: &str| format!("/pty/{id}/connect?ticket={ticket}");

    let asked = |client: &TestClient, path: &str| client.send("POST", path, None);
    let path = format!("/pty/{one}/connect-token");
    assert_eq!(asked(&client, &path).expect(403)["_tag"], "PtyForbiddenError");
    assert_eq!(asked(&client, &format!("/api{path}")).expect(403)["_tag"], "ForbiddenError");
    let asking = client.with_header("x-opencode-ticket", "1");
    let issued = asked(&asking, &path).expect(200);
    assert_eq!(issued["expires_in"], 60);
    let ticket = issued["ticket"].as_str().expect("a ticket");
    assert_eq!(asked(&asking, "/pty/pty_none/connect-token").status, 404);

    assert_eq!(refused(&format!("/pty/{one}/connect")), 401);
    assert_eq!(refused(&connect(&one, "")), 401);
    assert_eq!(refused(&connect(&one, "bad")), 403);
    assert_eq!(refused(&connect(&other, ticket)), 403);
    assert_eq!(anonymous.get(&format!("/pty/{one}?ticket={ticket}")).status, 401);
    let mut socket = TestWebSocket::open(anonymous, &connect(&one, ticket));
    socket.send_text("hello\r");
    read_until(&mut socket, "hello\r\nhello\r\n");
    assert_eq!(refused(&connect(&one, ticket)), 403, "a ticket is used once");
    let api = asked(&asking, &format!("/api{path}")).expect(200);
    let ticket = api["data"]["ticket"].as_str().expect("a ticket");
    drop(TestWebSocket::open(anonymous, &format!("/api/pty/{one}/connect?ticket={ticket}")));
}

#[test]
fn only_the_person_and_no_foreign_page_reaches_a_terminal() {
    let house = server();
    let id = start_script(house.client(), "/pty", "cat");
    let page = house.client().with_header("origin", "http://localhost:3000");
    let named = house.client().with_header("x-turnstone-actor", "bob");
    let runner = house
        .client()
        .post("/turnstone/runner", &json!({ "name": "r", "directory": house.project() }));
    let runner = runner.expect(200);
    let token = runner["token"].as_str().expect("a token");
    let runner = house.client().with_header("x-turnstone-token", token);
    for (who, client) in [("page", &page), ("named", &named), ("runner", &runner)] {
        for path in ["/pty", "/api/pty"] {
            let connect = format!("{path}/{id}/connect");
            let refused = TestWebSocket::try_open(client, &connect).expect_err("refused");
            assert_eq!(refused.status, 403, "{who} {connect}");
            client.post(path, &json!({})).expect(403);
            let asking = client.with_header("x-opencode-ticket", "1");
            asking.post(&format!("{path}/{id}/connect-token"), &json!({})).expect(403);
            client.delete(&format!("{path}/{id}")).expect(403);
        }
    }
    let own = format!("http://{}", house.address());
    drop(connect(&house.client().with_header("origin", &own), &id));
}

#[test]
fn client_that_does_not_read_holds_no_program_up() {
    let house = server();
    let client = house.client();
    let script = "read go; yes 0123456789abcde | head -c 12000000; touch done; read line; echo bye";
    let id = start_script(client, "/pty", script);
    let mut idle = connect(client, &id);
    assert_eq!(idle.next(), position(0));
    let mut typist = connect(client, &id);
    assert_eq!(typist.next(), position(0));
    typist.send_text("\r");
    // Once it is shown it was typed.
    assert!(matches!(typist.next(), SocketFrame::Text(_)));
    drop(typist);
    while !house.project().join("done").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut typist = TestWebSocket::open(client, &format!("/pty/{id}/connect?cursor=-1"));
    assert!(matches!(typist.next(), SocketFrame::Binary(_) | SocketFrame::Text(_)));
    typist.send_text("\r");
    let (mut at, mut taken) = (0, 0);
    let end = loop {
        match idle.next() {
            SocketFrame::Text(text) => {
                at += text.encode_utf16().count() as u64;
                taken += text.len();
            }
            SocketFrame::Binary(frame) => {
                let skipped: Value = serde_json::from_slice(&frame[1..]).expect("JSON");
                let skipped = skipped["cursor"].as_u64().expect("a position");
                assert!(skipped > at, "{skipped} {at}");
                at = skipped;
            }
            end @ (SocketFrame::Close(..) | SocketFrame::End) => break end,
        }
    };
    assert_eq!(end, SocketFrame::Close(1000, String::new()));
    // 16 letters and a carriage return for each of 750,000 lines, the echoes, and the last words.
    assert_eq!(at, 12_750_000 + 2 + 2 + 5);
    assert!(taken < 12_000_000, "it was skipped: {taken}");
}

#[test]
fn large_input_waits_for_a_program_that_reads_late() {
    let house = server();
    let client = house.client();
    let script = "stty raw -echo; echo ready; while [ ! -e go ]; do sleep 0.01; done; head -c 600000 | wc -c";
    let id = start_script(client, "/pty", script);
    let mut socket = connect(client, &id);
    read_until(&mut socket, "ready");
    for _ in 0..6 {
        socket.send_frame(2, &[b'x'; 100_000]);
    }
    house.write_file("go", "");
    let (seen, end) = read_to_end(&mut socket);
    assert!(seen.trim().ends_with("600000"), "{seen:?}");
    assert_eq!(end, SocketFrame::Close(1000, String::new()));
}

#[test]
fn hostile_frames_end_their_own_connection_only() {
    let house = server();
    let client = house.client();
    let id = start_script(client, "/pty", "cat");
    let mut good = connect(client, &id);
    let end_after = |attack: &dyn Fn(&mut TestWebSocket)| {
        let mut socket = connect(client, &id);
        attack(&mut socket);
        let end = read_to_end(&mut socket).1;
        let SocketFrame::Close(code, _) = end else { panic!("{end:?}") };
        code
    };
    assert_eq!(end_after(&|socket| socket.send_head(1, (1 << 20) + 1)), 1009);
    assert_eq!(end_after(&|socket| socket.send_head(2, usize::MAX >> 1)), 1009);
    assert_eq!(end_after(&|socket| socket.send_frame(1, b"\xff\xfe")), 1007);
    assert_eq!(end_after(&|socket| socket.send_raw(b"\x81\x03abc")), 1002, "not masked");
    assert_eq!(end_after(&|socket| socket.send_frame(7, b"x")), 1002, "no such opcode");
    // Pieces of one message that never ends.
    let pieces = end_after(&|socket| {
        for opcode in std::iter::once(2).chain(std::iter::repeat_n(0, 40)) {
            socket.send_raw(&[opcode, 0x80 | 126]);
            socket.send_raw(&32_768_u16.to_be_bytes());
            socket.send_raw(&[0; 4 + 32_768]);
        }
    });
    assert_eq!(pieces, 1009);
    good.send_frame(9, b"ping");
    good.send_frame(2, "bytes ä\r".as_bytes());
    read_until(&mut good, "bytes ä\r\nbytes ä\r\n");
}

#[test]
fn number_of_terminals_is_limited() {
    let house = server_with(|settings| settings.limits.terminals = 2);
    let client = house.client();
    let first = start_script(client, "/pty", "sleep 600");
    start_script(client, "/api/pty", "sleep 600");
    let full = client.post("/pty", &json!({})).expect(503);
    assert_eq!(
        (&full["_tag"], &full["service"]),
        (&json!("ServiceUnavailableError"), &json!("pty"))
    );
    let mut events = client.stream("/event");
    client.delete(&format!("/pty/{first}")).expect(200);
    events.wait_for("pty.deleted");
    // Its place is free once its program has ended.
    while client.post("/pty", &json!({ "command": "/bin/sh" })).status == 503 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn ticket_is_not_stored_for_repeats() {
    let house = server();
    let client = house.client();
    let id = start_script(client, "/pty", "sleep 600");
    let keyed =
        client.with_header("idempotency-key", "ticket").with_header("x-opencode-ticket", "1");
    for (path, key) in [("/pty", "ticket"), ("/api/pty", "data")] {
        let path = format!("{path}/{id}/connect-token");
        let ask = || keyed.send("POST", &path, None);
        let (first, second) = (ask(), ask());
        assert_eq!((first.status, second.status), (200, 200), "{key}: {}", first.text());
        assert_eq!(second.header("idempotent-replayed"), None);
        assert_ne!(first.text(), second.text(), "a repeat gets a ticket of its own");
    }
}

#[test]
fn shells_of_the_system_are_listed() {
    let house = server();
    let listed = house.client().get("/pty/shells").expect(200);
    let listed = listed.as_array().expect("a list").clone();
    assert!(listed.iter().all(|shell| {
        let path = shell["path"].as_str().expect("a path");
        std::path::Path::new(path).is_file()
            && path.ends_with(shell["name"].as_str().expect("a name"))
    }));
}

/// Proves R37: what runs below any other supervisor of the program counts as run by an agent.
#[test]
fn supervisor_of_a_terminal_says_that_a_person_types_there() {
    let house = server();
    let script = "tr '\\0' ' ' < /proc/$PPID/cmdline; echo; echo end; read line";
    let id = start_script(house.client(), "/pty", script);
    let seen = read_until(&mut connect(house.client(), &id), "end");
    assert!(seen.contains("supervise --terminal"), "{seen:?}");
}
