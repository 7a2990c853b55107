//! `turnstone serve` runs commands of people as turns, and leaves nothing behind when it is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::exec::await_line;
use crate::fixture::{CliFixture, read_file};

const TEST_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);

/// The real program, serving.
pub(crate) struct TestServer {
    child: Child,
    address: String,
}

/// Waits for the ready line of a server; its address.
pub(crate) fn await_ready(child: &mut Child) -> String {
    let mut line = String::new();
    let out = child.stdout.take().expect("an output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    let url = ready["url"].as_str().expect("an address");
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

impl TestServer {
    #[expect(clippy::disallowed_methods, reason = "assert_cmd cannot leave a program running")]
    pub(crate) fn start(case: &CliFixture) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_turnstone"))
            .env_clear()
            .env("PATH", TEST_PATH)
            .env("TZ", "UTC")
            .env("USER", "ada")
            .env("HOME", case.path("home"))
            .env("TURNSTONE_DATA", case.data_dir())
            .env("OPENCODE_SERVER_PASSWORD", "pw")
            .current_dir(case.path("p"))
            .args(["serve", "--port", "0", "--json", "--no-agent"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let address = await_ready(&mut child);
        Self { child, address }
    }

    /// Kills the server as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        read_response(&mut self.send_request(method, path, body))
    }

    /// Asks as the driver of a turn.
    pub(crate) fn request_as_driver(
        &self,
        begun: &Value,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let lease = begun["lease"].as_str().expect("a lease");
        let head = format!("x-turnstone-lease: {lease}\r\n");
        read_response(&mut self.send_with_headers("POST", path, body, &head))
    }

    /// Asks under the name of another actor.
    pub(crate) fn request_as(&self, actor: &str, path: &str, body: &Value) -> (u16, Value) {
        let head = format!("x-turnstone-actor: {actor}\r\n");
        read_response(&mut self.send_with_headers("POST", path, body, &head))
    }

    /// Asks something that is done once.
    pub(crate) fn request_with_key(&self, key: &str, path: &str, body: &Value) -> TcpStream {
        self.send_with_headers("POST", path, body, &format!("idempotency-key: {key}\r\n"))
    }

    fn send_request(&self, method: &str, path: &str, body: &Value) -> TcpStream {
        self.send_with_headers(method, path, body, "")
    }

    fn send_with_headers(&self, method: &str, path: &str, body: &Value, more: &str) -> TcpStream {
        let mut socket = TcpStream::connect(&self.address).expect("connects");
        socket.set_read_timeout(Some(RESPONSE_TIMEOUT)).expect("a timeout");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             authorization: Basic b3BlbmNvZGU6cHc=\r\n{more}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        socket.write_all(head.as_bytes()).expect("asked");
        socket
    }

    pub(crate) fn create_session(&self) -> String {
        let (status, made) = self.request("POST", "/session", &json!({}));
        assert_eq!(status, 200, "{made}");
        made["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn run_shell(&self, session: &str, command: &str) -> (u16, Value) {
        let body = json!({ "agent": "build", "command": command });
        self.request("POST", &format!("/session/{session}/shell"), &body)
    }

    pub(crate) fn list_messages(&self, session: &str) -> Vec<Value> {
        let (_, listed) = self.request("GET", &format!("/session/{session}/message"), &Value::Null);
        listed.as_array().expect("a list").clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn read_response(socket: &mut TcpStream) -> (u16, Value) {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).expect("an answer");
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// True while the process of that number lives.
fn is_alive(pid: &str) -> bool {
    let status = fs_err::read_to_string(format!("/proc/{}/stat", pid.trim()));
    status.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn shell_command_is_recorded_as_undoable_turn() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = served.create_session();
    let (status, answer) = served.run_shell(&session, "echo shelled; echo x > made; exit 3");
    assert_eq!(status, 200, "{answer}");
    let part = &answer["parts"][0];
    assert_eq!((&part["type"], &part["tool"]), (&"tool".into(), &"bash".into()));
    let state = &part["state"];
    assert_eq!((&state["status"], &state["output"]), (&"completed".into(), &"shelled\n".into()));
    assert_eq!((&state["title"], &state["metadata"]["output"]), (&"".into(), &"shelled\n".into()));
    assert_eq!(state["metadata"]["exit"], 3, "the code is not lost");
    let info = &answer["info"];
    assert_eq!((&info["agent"], &info["mode"]), (&"build".into(), &"build".into()));
    assert!(info["time"]["completed"].is_i64() && info.get("finish").is_none(), "{info}");
    let stored = served.list_messages(&session);
    assert_eq!(stored.len(), 2);
    assert_eq!(stored[0]["parts"][0]["synthetic"], true);
    assert_eq!(stored[0]["info"]["id"], info["parentID"]);

    // No secret of the server reaches a command, and its session is known to it.
    let (_, answer) =
        served.run_shell(&session, "echo [$TURNSTONE_SESSION][$OPENCODE_SERVER_PASSWORD]");
    assert_eq!(answer["parts"][0]["state"]["output"], format!("[{session}][]\n"));
    drop(served);
    assert_eq!(read_file(&case.path("p").join("made")), "x\n");
    for _ in 0..2 {
        let undone = crate::exec::run_program(&case, &["undo"]);
        assert_eq!(undone.code, 0, "{undone:?}");
    }
    assert!(!case.path("p").join("made").exists(), "both commands are undone");
}

/// Proves R45.
#[test]
fn shell_output_streams_and_abort_ends_process_group() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = served.create_session();
    let body = json!({ "agent": "build",
        "command": "echo begun; sh -c 'echo $$ > child; exec sleep 600' & wait" });
    let mut asked = served.send_request("POST", &format!("/session/{session}/shell"), &body);
    let child = await_line(&case.path("p").join("child"));
    let shown = (0..1200).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        let stored = served.list_messages(&session);
        stored.len() == 2 && stored[1]["parts"][0]["state"]["metadata"]["output"] == "begun\n"
    });
    assert!(shown, "{:?}", served.list_messages(&session));
    let (status, refused) = served.run_shell(&session, "true");
    assert_eq!((status, &refused["_tag"]), (409, &"SessionBusyError".into()));

    // A prompt waits, and is answered when the command has ended.
    let prompt = json!({ "parts": [{ "type": "text", "text": "then this" }] });
    let mut waiting = served.send_request("POST", &format!("/session/{session}/message"), &prompt);
    let (status, done) = served.request("POST", &format!("/session/{session}/abort"), &Value::Null);
    assert_eq!((status, done), (200, true.into()));
    let (status, ended) = read_response(&mut asked);
    assert_eq!(status, 200, "{ended}");
    let output = ended["parts"][0]["state"]["output"].as_str().expect("an output").to_owned();
    assert!(output.starts_with("begun\n") && output.contains("aborted"), "{output}");
    assert!(!is_alive(&child), "the whole group has ended");
    let (status, refused) = read_response(&mut waiting);
    assert_eq!((status, &refused["info"]["error"]["name"]), (200, &"UnknownError".into()));
    let (status, again) = served.run_shell(&session, "echo free");
    assert_eq!((status, &again["parts"][0]["state"]["output"]), (200, &"free\n".into()));
}

/// Proves R32.
#[test]
fn crash_leaves_no_busy_session_and_no_process() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = served.create_session();
    let command = "echo made > before; trap '' HUP; sh -c 'echo $$ > child; exec sleep 600'";
    let body = json!({ "agent": "build", "command": command });
    let asked = served.send_request("POST", &format!("/session/{session}/shell"), &body);
    let prompt = json!({ "messageID": "msg_zzzzzzzzzzzz0000000000000a",
                         "parts": [{ "type": "text", "text": "not lost" }] });
    let child = await_line(&case.path("p").join("child"));
    let path = format!("/session/{session}/prompt_async");
    assert_eq!(served.request("POST", &path, &prompt).0, 204);
    served.kill();
    drop(asked);

    let served = TestServer::start(&case);
    let ended = (0..1200).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        let stored = served.list_messages(&session);
        stored[1]["parts"][0]["state"]["status"] == "error" && !is_alive(&child)
    });
    assert!(ended, "{:?}", served.list_messages(&session));
    // The prompt was acknowledged: it is there, and saying it again gets its one answer.
    let path = format!("/session/{session}/message");
    let (status, answered) = served.request("POST", &path, &prompt);
    assert_eq!((status, &answered["info"]["parentID"]), (200, &prompt["messageID"]), "{answered}");
    assert_eq!(served.list_messages(&session).len(), 4);
    let (status, again) = served.run_shell(&session, "cat before");
    assert_eq!((status, &again["parts"][0]["state"]["output"]), (200, &"made\n".into()));
}

#[test]
fn acknowledged_prompts_survive_crash_and_are_answered_once() {
    let case = CliFixture::empty();
    let mut acknowledged: Vec<String> = Vec::new();
    let mut session = String::new();
    for round in 0..3 {
        let served = TestServer::start(&case);
        if session.is_empty() {
            session = served.create_session();
        }
        for number in 0..5 {
            let id = format!("msg_{round}{number}aaaaaaaaaa00000000000000");
            let body = json!({ "messageID": id, "parts": [{ "type": "text", "text": id }] });
            let path = format!("/session/{session}/message");
            if number == 4 {
                // Cut off in the middle: whether it is there is open, whether it is whole is not.
                drop(served.send_request("POST", &path, &body));
            } else {
                assert_eq!(served.request("POST", &path, &body).0, 200);
                acknowledged.push(id);
            }
        }
        served.kill();
    }
    let served = TestServer::start(&case);
    let stored = served.list_messages(&session);
    for id in &acknowledged {
        let asked = stored.iter().filter(|message| message["info"]["id"] == id.as_str());
        let answers = stored.iter().filter(|message| message["info"]["parentID"] == id.as_str());
        assert_eq!((asked.count(), answers.count()), (1, 1), "{id}");
    }
    for message in stored.iter().filter(|message| message["info"]["role"] == "assistant") {
        assert!(message["info"]["time"]["completed"].is_i64(), "{message}");
    }
    assert_eq!(served.run_shell(&session, "true").0, 200, "nothing is busy");
}

#[test]
fn command_template_inserts_program_output() {
    let case = CliFixture::empty();
    let folder = case.path("p").join(".opencode/command");
    fs_err::create_dir_all(&folder).expect("made");
    fs_err::write(folder.join("tell.md"), "It is !`echo $((40 + $1)) \"$2\"` today.\n")
        .expect("written");
    let served = TestServer::start(&case);
    let session = served.create_session();
    let body = json!({ "command": "tell", "arguments": "2 !`touch evil`" });
    let (status, answer) = served.request("POST", &format!("/session/{session}/command"), &body);
    assert_eq!(status, 200, "{answer}");
    let stored = served.list_messages(&session);
    let text = stored[0]["parts"][0]["text"].as_str().expect("a text");
    assert_eq!(text, "It is 42 !`touch evil`\n today.");
    assert!(!case.path("p").join("evil").exists(), "arguments run nothing");
}

/// Proves R32.
#[test]
fn killed_server_leaves_no_process_of_a_terminal() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let script =
        "trap '' HUP TERM; sleep 600 & echo $$ $! > pids.tmp; mv pids.tmp pids; wait; sleep 600";
    let body = json!({ "command": "/bin/sh", "args": ["-c", script] });
    let (status, made) = served.request("POST", "/pty", &body);
    assert_eq!((status, &made["status"]), (200, &"running".into()), "{made}");
    let pids = case.path("p").join("pids");
    while !pids.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pids = read_file(&pids);
    assert!(pids.split_whitespace().all(is_alive), "{pids}");
    served.kill();
    let gone = (0..12_000).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        !pids.split_whitespace().any(is_alive)
    });
    assert!(gone, "{pids}");
    // A terminal is not recorded: the next server knows none, and nothing waits to be recovered.
    let served = TestServer::start(&case);
    assert_eq!(served.request("GET", "/api/pty", &Value::Null).1["data"], json!([]));
    let (_, sessions) = served.request("GET", "/session", &Value::Null);
    assert_eq!(sessions, json!([]));
}
