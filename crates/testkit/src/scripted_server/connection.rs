//! One connection: one request, one response.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use super::reply::{ReplyPiece, ServerReply};

/// How often a connection looks for the file it waits for.
const FILE_POLL: Duration = Duration::from_millis(5);

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl RecordedRequest {
    /// Returns the first header of that name, which is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Reads one request. Returns `None` if the client closed the connection before.
fn read_request(stream: impl Read) -> io::Result<Option<RecordedRequest>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
        }
    }
    let mut request = RecordedRequest { method, path, headers, body: Vec::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    request.body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut request.body)?;
    Ok(Some(request))
}

/// Sends a response. An error means that the client has closed the connection.
fn send_reply(stream: &mut (impl Read + Write), reply: &ServerReply) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} scripted\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
    for piece in &reply.pieces {
        match piece {
            ReplyPiece::Bytes(bytes) if bytes.is_empty() => {}
            ReplyPiece::Bytes(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                stream.write_all(&chunk)?;
                stream.flush()?;
            }
            ReplyPiece::Pause(time) => std::thread::sleep(*time),
            ReplyPiece::WaitForFile(path) => {
                while !path.exists() {
                    std::thread::sleep(FILE_POLL);
                }
            }
            ReplyPiece::WaitForClose => {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest)?;
                return Ok(());
            }
            ReplyPiece::Cut => return Ok(()),
        }
    }
    stream.write_all(b"0\r\n\r\n")?;
    stream.flush()
}

/// Serves one request of a connection, with or without TLS. An error means that the client has closed
/// the connection.
pub fn serve_connection(
    stream: &mut (impl Read + Write),
    answer: impl FnOnce(RecordedRequest) -> ServerReply,
) -> io::Result<()> {
    if let Some(request) = read_request(&mut *stream)? {
        send_reply(stream, &answer(request))?;
    }
    Ok(())
}
