//! A client of one connection: enough HTTP to ask and to be answered.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::Fallible;

/// How long an answer may take; a fork of OpenCode takes most of a minute.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);

/// A connection that is kept open.
pub(crate) struct HttpClient {
    stream: BufReader<TcpStream>,
    directory: String,
    /// Further lines of the head.
    head: String,
}

/// What was answered.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    /// The body as JSON; anything but success is an error.
    pub(crate) fn json(&self) -> Fallible<Value> {
        if !(200..300).contains(&self.status) {
            let body = String::from_utf8_lossy(&self.body);
            return Err(format!("status {}: {body}", self.status).into());
        }
        Ok(serde_json::from_slice(&self.body)?)
    }
}

impl HttpClient {
    pub(crate) fn connect(address: SocketAddr, directory: &str) -> Fallible<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        let (directory, head) = (directory.to_owned(), String::new());
        Ok(Self { stream: BufReader::new(stream), directory, head })
    }

    /// The same connection, which says one thing more with every request.
    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// The same connection, which gives an answer up after `patience`.
    pub(crate) fn with_timeout(self, patience: Duration) -> Fallible<Self> {
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        Ok(self)
    }

    pub(crate) fn get(&mut self, path: &str) -> Fallible<HttpResponse> {
        self.request("GET", path, None)
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Fallible<HttpResponse> {
        self.request("POST", path, Some(body))
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Fallible<HttpResponse> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-opencode-directory: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n{}\r\n{body}",
            self.directory,
            body.len(),
            self.head,
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.read_response()
    }

    fn read_line(&mut self) -> Fallible<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err("the server hung up".into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn read_response(&mut self) -> Fallible<HttpResponse> {
        let status = self.read_line()?.split(' ').nth(1).ok_or("no status")?.parse()?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.read_line()?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
        }
        let mut body = Vec::new();
        if !chunked {
            body.resize(length, 0);
            self.stream.read_exact(&mut body)?;
            return Ok(HttpResponse { status, body });
        }
        loop {
            let size = usize::from_str_radix(self.read_line()?.trim(), 16)?;
            let at = body.len();
            body.resize(at + size, 0);
            self.stream.read_exact(&mut body[at..])?;
            self.read_line()?;
            if size == 0 {
                return Ok(HttpResponse { status, body });
            }
        }
    }
}
