//! A WebSocket client that can also break the rules.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use super::client::{HttpAnswer, TestClient};

/// The key of a handshake does not matter to a test.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketFrame {
    Text(String),
    Binary(Vec<u8>),
    Close(u16, String),
    /// The connection ended without a goodbye.
    End,
}

/// One open WebSocket.
#[derive(Debug)]
pub(crate) struct TestWebSocket {
    reader: BufReader<TcpStream>,
}

impl TestWebSocket {
    /// Opens a WebSocket, or returns the answer of the server that refused it.
    pub(crate) fn try_open(client: &TestClient, path: &str) -> Result<Self, HttpAnswer> {
        let client =
            client.with_header("connection", "upgrade").with_header("upgrade", "websocket");
        let client = client.with_header("sec-websocket-version", "13");
        let (answer, reader) = client.with_header("sec-websocket-key", KEY).open_head(path);
        if answer.status == 101 { Ok(Self { reader }) } else { Err(answer) }
    }

    pub(crate) fn open(client: &TestClient, path: &str) -> Self {
        Self::try_open(client, path).unwrap_or_else(|answer| panic!("{path}: {answer:?}"))
    }

    /// Types text.
    pub(crate) fn send_text(&mut self, text: &str) {
        self.send_frame(1, text.as_bytes());
    }

    /// Sends one frame with any opcode; the mask is zero, so the bytes are as given.
    pub(crate) fn send_frame(&mut self, opcode: u8, bytes: &[u8]) {
        self.send_head(opcode, bytes.len());
        self.send_raw(bytes);
    }

    /// Sends the head of a frame that need not be followed by anything.
    pub(crate) fn send_head(&mut self, opcode: u8, length: usize) {
        let masked = 0x80;
        let mut head = vec![0x80 | opcode];
        match length {
            0..=125 => head.push(masked | length as u8),
            126..=65_535 => {
                head.push(masked | 126);
                head.extend((length as u16).to_be_bytes());
            }
            _ => {
                head.push(masked | 127);
                head.extend((length as u64).to_be_bytes());
            }
        }
        head.extend([0; 4]);
        self.send_raw(&head);
    }

    /// Sends bytes. The server may have closed already.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        drop(self.reader.get_mut().write_all(bytes));
    }

    /// The next frame that is no ping.
    pub(crate) fn next(&mut self) -> SocketFrame {
        loop {
            let mut head = [0; 2];
            if self.reader.read_exact(&mut head).is_err() {
                return SocketFrame::End;
            }
            let length = match head[1] & 0x7f {
                126 => usize::from(u16::from_be_bytes(self.exact())),
                127 => usize::try_from(u64::from_be_bytes(self.exact())).expect("a length"),
                short => usize::from(short),
            };
            let mut bytes = vec![0; length];
            if self.reader.read_exact(&mut bytes).is_err() {
                return SocketFrame::End;
            }
            match head[0] & 0x0f {
                1 => return SocketFrame::Text(String::from_utf8(bytes).expect("UTF-8")),
                2 => return SocketFrame::Binary(bytes),
                8 => {
                    let code = bytes.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                    let reason = bytes.get(2..).unwrap_or_default();
                    return SocketFrame::Close(code, String::from_utf8_lossy(reason).into_owned());
                }
                _ => {}
            }
        }
    }

    fn exact<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).expect("a length");
        bytes
    }
}
