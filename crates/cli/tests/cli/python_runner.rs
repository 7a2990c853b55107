//! The example runner in Python drives a turn through the native routes of a real server.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::fixture::CliFixture;
use crate::serve_shell::await_ready;

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A server without a password, and the runner on it; the address of the server.
#[expect(clippy::disallowed_methods, reason = "assert_cmd cannot leave a program running")]
fn start(case: &CliFixture) -> (String, [Running; 2]) {
    let path = std::env::var_os("PATH").expect("a path");
    let mut server = Running(
        Command::new(env!("CARGO_BIN_EXE_turnstone"))
            .env_clear()
            .env("PATH", &path)
            .env("HOME", case.path("home"))
            .env("TURNSTONE_DATA", case.data_dir())
            .current_dir(case.path("p"))
            .args(["serve", "--port", "0", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts"),
    );
    let address = await_ready(&mut server.0);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/runner.py");
    let runner = Command::new("python3")
        .env_clear()
        .env("PATH", &path)
        .args([example, &format!("http://{address}")])
        .arg(case.path("p"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    (address, [server, Running(runner)])
}

/// A request without a password.
fn request(address: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    use std::io::Write;
    let mut socket = std::net::TcpStream::connect(address).expect("connects");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("asked");
    crate::serve_shell::read_response(&mut socket)
}

/// What `read` finds, once it finds something; gives up after minutes.
fn wait_for<T>(mut read: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(found) = read() {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("it did not happen in minutes")
}

/// A reader of docs/http.md sees at a glance what a runner has to do.
#[test]
fn example_runner_has_at_most_forty_lines_of_code() {
    let example = include_str!("../../../../examples/runner.py");
    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && !line.starts_with("\"\"\"")
    };
    assert!(example.lines().filter(is_code).count() <= 40);
}

#[test]
fn python_runner_streams_asks_and_shows_todos_and_output() {
    let case = CliFixture::empty();
    fs_err::write(case.path("p/tide.txt"), "high\n").expect("written");
    let asks = r#"{"permission": {"bash": "ask"}}"#;
    fs_err::write(case.path("p/opencode.json"), asks).expect("written");
    let (address, [server, mut runner]) = start(&case);
    let get = |path: &str| request(&address, "GET", path, &Value::Null).1;
    wait_for(|| get("/turnstone/runner").as_array().filter(|all| !all.is_empty()).cloned());
    let (_, made) = request(&address, "POST", "/session", &json!({}));
    let session = made["id"].as_str().expect("an id").to_owned();
    let prompt = json!({ "agent": "build", "model": { "providerID": "p", "modelID": "m" },
        "parts": [{ "type": "text", "text": "What is here?" }] });
    let message = format!("/session/{session}/message");
    let answered = std::thread::scope(|scope| {
        let asked = scope.spawn(|| request(&address, "POST", &message, &prompt));
        let pending =
            wait_for(|| get("/permission").as_array().and_then(|all| all.first().cloned()));
        assert_eq!(
            (&pending["permission"], &pending["patterns"]),
            (&json!("bash"), &json!(["ls -l"]))
        );
        let todos = get(&format!("/session/{session}/todo"));
        assert_eq!(todos[0]["status"], "in_progress", "{todos}");
        let reply = format!("/permission/{}/reply", pending["id"].as_str().expect("an id"));
        assert_eq!(request(&address, "POST", &reply, &json!({ "reply": "once" })).0, 200);
        asked.join().expect("answered")
    });

    let (status, answer) = answered;
    assert_eq!(status, 200, "{answer}");
    let parts = answer["parts"].as_array().expect("parts");
    let text = parts.iter().find(|part| part["type"] == "text").expect("a text");
    assert_eq!(text["text"], "I plan, then I list the files.");
    let tools: Vec<&Value> = parts.iter().filter(|part| part["type"] == "tool").collect();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["tool"]).collect();
    assert_eq!(names, ["todowrite", "bash", "todowrite"]);
    assert!(tools.iter().all(|tool| tool["state"]["status"] == "completed"), "{tools:?}");
    let output = tools[1]["state"]["metadata"]["output"].as_str().expect("an output");
    assert!(output.contains("tide.txt"), "{output}");
    assert_eq!(get(&format!("/session/{session}/todo"))[0]["status"], "completed");

    drop(server);
    let mut said = String::new();
    let mut stderr = runner.0.stderr.take().expect("piped");
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("read");
    assert_eq!(runner.0.wait().expect("ends").code(), Some(1), "{said}");
    assert!(said.starts_with("no answer from") && said.lines().count() == 1, "{said}");
}
