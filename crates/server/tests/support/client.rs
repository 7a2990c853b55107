//! One connection for each request; nothing is reused, so nothing can be mistaken for the last answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// No answer takes that long.
const LONG: Duration = Duration::from_secs(300);

/// Where to ask, and what to say with every request.
#[derive(Clone, Debug)]
pub(crate) struct TestClient {
    address: SocketAddr,
    headers: Vec<(String, String)>,
    check: AnswerCheck,
}

/// What every answer must fulfil: the method and the path it answers.
pub(crate) type AnswerCheck = fn(&str, &str, &HttpAnswer);

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpAnswer {
    /// The first header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; of an empty one, `null`.
    pub(crate) fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The body of an answer that must have this status.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }
}

impl TestClient {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, headers: Vec::new(), check: |_, _, _| () }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same client that says one thing more with every request.
    pub(crate) fn with_header(&self, name: &str, value: &str) -> Self {
        let mut more = self.clone();
        more.headers.push((name.to_owned(), value.to_owned()));
        more
    }

    /// The same client that fails if an answer does not pass `check`.
    pub(crate) fn with_check(&self, check: AnswerCheck) -> Self {
        Self { check, ..self.clone() }
    }

    pub(crate) fn get(&self, path: &str) -> HttpAnswer {
        self.send("GET", path, None)
    }

    pub(crate) fn delete(&self, path: &str) -> HttpAnswer {
        self.send("DELETE", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send("POST", path, Some(body.to_string().as_bytes()))
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send("PATCH", path, Some(body.to_string().as_bytes()))
    }

    /// Any request; without a body there is none, not an empty object.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> HttpAnswer {
        let answer = self.send_unchecked(method, path, body);
        (self.check)(method, path, &answer);
        answer
    }

    fn send_unchecked(&self, method: &str, path: &str, body: Option<&[u8]>) -> HttpAnswer {
        let mut reader = self.open(method, path, body);
        let (status, headers) = head(&mut reader);
        let mut answer = HttpAnswer { status, headers, body: Vec::new() };
        let bodiless = method == "HEAD" || status == 204 || status == 304;
        if bodiless {
            return answer;
        }
        if answer.header("transfer-encoding").is_some_and(|value| value == "chunked") {
            while let Some(chunk) = chunk(&mut reader) {
                answer.body.extend(chunk);
            }
            return answer;
        }
        match answer.header("content-length").map(|text| text.parse::<usize>().expect("a length")) {
            Some(length) => {
                answer.body = vec![0; length];
                reader.read_exact(&mut answer.body).expect("the body");
            }
            None => drop(reader.read_to_end(&mut answer.body).expect("the body")),
        }
        answer
    }

    /// Asks, and goes away without an answer when what this returns is dropped.
    pub(crate) fn post_without_reading(&self, path: &str, body: &Value) -> BufReader<TcpStream> {
        self.open("POST", path, Some(body.to_string().as_bytes()))
    }

    /// A stream of events, open.
    pub(crate) fn stream(&self, path: &str) -> SseStream {
        let mut reader = self.open("GET", path, None);
        let (status, headers) = head(&mut reader);
        SseStream { status, headers, reader, rest: Vec::new() }
    }

    /// Asks, and reads the head of the answer; what follows it is left to the caller.
    pub(crate) fn open_head(&self, path: &str) -> (HttpAnswer, BufReader<TcpStream>) {
        let mut reader = self.open("GET", path, None);
        let (status, headers) = head(&mut reader);
        (HttpAnswer { status, headers, body: Vec::new() }, reader)
    }

    fn open(&self, method: &str, path: &str, body: Option<&[u8]>) -> BufReader<TcpStream> {
        let mut socket = TcpStream::connect(self.address).expect("connects");
        socket.set_read_timeout(Some(LONG)).expect("a timeout");
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("connection")) {
            head.push_str("connection: close\r\n");
        }
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                head.push_str("content-type: application/json\r\n");
            }
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        socket.write_all(head.as_bytes()).expect("asked");
        // The server may answer before it has read all of the body, and close.
        drop(socket.write_all(body.unwrap_or_default()));
        BufReader::new(socket)
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    line.trim_end_matches(['\r', '\n']).to_owned()
}

fn head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let first = line(reader);
    let status = first.split(' ').nth(1).and_then(|text| text.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status in {first:?}"));
    let mut headers = Vec::new();
    loop {
        let line = line(reader);
        let Some((name, value)) = line.split_once(':') else { return (status, headers) };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// The next piece of a chunked body; nothing at its end, or when the server broke off.
fn chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    if reader.read_line(&mut line).expect("in time") == 0 {
        return None;
    }
    let length = usize::from_str_radix(line.trim(), 16).expect("a length");
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    (length > 0).then_some(bytes)
}

/// A stream of events; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct SseStream {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
    rest: Vec<u8>,
}

impl SseStream {
    /// How long [`Self::frame`] waits before the test fails.
    pub(crate) fn set_timeout(&self, time: Duration) {
        self.reader.get_ref().set_read_timeout(Some(time)).expect("a timeout");
    }

    /// What lies there unread, without waiting for more.
    pub(crate) fn arrived(&mut self) -> String {
        self.reader.get_ref().set_nonblocking(true).expect("set");
        let mut bytes = std::mem::take(&mut self.rest);
        let error = self.reader.read_to_end(&mut bytes).map_err(|error| error.kind());
        assert_eq!(error.err(), Some(std::io::ErrorKind::WouldBlock), "the stream goes on");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The lines of the next frame; nothing when the server ended the stream.
    pub(crate) fn frame(&mut self) -> Option<Vec<String>> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = self.rest.drain(..end + 2).collect();
                let text = String::from_utf8(frame).expect("text");
                return Some(text.lines().filter(|l| !l.is_empty()).map(str::to_owned).collect());
            }
            self.rest.extend(chunk(&mut self.reader)?);
        }
    }

    /// The data of the next frame that has any.
    pub(crate) fn event(&mut self) -> Option<Value> {
        loop {
            let frame = self.frame()?;
            let data: Vec<&str> =
                frame.iter().filter_map(|line| line.strip_prefix("data:")).collect();
            if !data.is_empty() {
                return Some(serde_json::from_str(data.join("\n").trim()).expect("JSON"));
            }
        }
    }

    /// Skips events until one is of `kind`, be it at the top or inside `payload`.
    pub(crate) fn wait_for(&mut self, kind: &str) -> Value {
        loop {
            let event = self.event().unwrap_or_else(|| panic!("the stream ended before {kind}"));
            if event["type"] == kind || event["payload"]["type"] == kind {
                return event;
            }
        }
    }
}
