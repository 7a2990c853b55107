//! A client of a started server: requests with JSON, and its event stream.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// No answer takes that long.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A client of the server at an address.
#[derive(Clone)]
pub(crate) struct ServeClient {
    pub(crate) address: String,
}

impl ServeClient {
    fn open(&self, method: &str, path: &str, body: &Value) -> BufReader<TcpStream> {
        let mut socket = TcpStream::connect(&self.address).expect("connects");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        write!(
            socket,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("asked");
        BufReader::new(socket)
    }

    /// Asks, and reads status and body.
    pub(crate) fn request(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        read_answer(self.open(method, path, body))
    }

    /// Asks something that must succeed.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.request("POST", path, body);
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// Reads something that must be there.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, answer) = self.request("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Asks in the background; the thread returns status and body.
    pub(crate) fn post_later(
        &self,
        path: &str,
        body: &Value,
    ) -> std::thread::JoinHandle<(u16, Value)> {
        let reader = self.open("POST", path, body);
        std::thread::spawn(move || read_answer(reader))
    }

    /// Creates a session; its id.
    pub(crate) fn create_session(&self) -> String {
        text(&self.post("/session", &json!({}))["id"])
    }

    /// Opens the event stream of a path.
    pub(crate) fn events(&self, path: &str) -> EventReader {
        let mut reader = self.open("GET", path, &Value::Null);
        let mut line = String::new();
        reader.read_line(&mut line).expect("a status");
        assert!(line.contains(" 200 "), "{line}");
        let mut events = EventReader { reader, seen: Vec::new() };
        events.wait_for("server.connected", |_| true);
        events
    }

    /// The messages of a session, the oldest first.
    pub(crate) fn messages(&self, session: &str) -> Vec<Value> {
        let listed = self.get(&format!("/session/{session}/message"));
        listed.as_array().expect("a list").clone()
    }
}

/// A text of JSON.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// The texts of a message.
pub(crate) fn texts(message: &Value) -> String {
    let parts = message["parts"].as_array().expect("parts").iter();
    parts.filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str()).collect()
}

fn read_answer(mut reader: BufReader<TcpStream>) -> (u16, Value) {
    let mut bytes = Vec::new();
    // A server that was killed closes the connection in the middle.
    drop(reader.read_to_end(&mut bytes));
    let answer = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// An event stream.
pub(crate) struct EventReader {
    reader: BufReader<TcpStream>,
    /// Every event so far.
    pub(crate) seen: Vec<Value>,
}

impl EventReader {
    /// Reads on until an event of a kind that `is_wanted`; its properties.
    pub(crate) fn wait_for(&mut self, kind: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line).expect("in time");
            assert_ne!(read, 0, "the stream ended before {kind}");
            let Some(data) = line.strip_prefix("data:") else { continue };
            let event: Value = serde_json::from_str(data.trim()).expect("JSON");
            let event = if event["payload"].is_object() { event["payload"].clone() } else { event };
            self.seen.push(event.clone());
            if event["type"] == kind && is_wanted(&event["properties"]) {
                return event["properties"].clone();
            }
        }
    }

    /// Reads on until a session has nothing to do.
    pub(crate) fn wait_for_idle(&mut self, session: &str) {
        self.wait_for("session.idle", |it| it["sessionID"] == session);
    }

    /// The kinds of all events so far, without repetitions in a row.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = self.seen.iter().filter_map(|it| it["type"].as_str()).collect();
        kinds.dedup();
        kinds
    }
}
