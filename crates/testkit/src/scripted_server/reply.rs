//! What the server sends.

use std::path::PathBuf;
use std::time::Duration;

/// A response, piece by piece.
#[derive(Clone, Debug)]
pub struct ServerReply {
    /// The status.
    pub status: u16,
    /// The headers. `transfer-encoding` is added.
    pub headers: Vec<(String, String)>,
    /// The body, and what happens within it.
    pub pieces: Vec<ReplyPiece>,
}

/// A piece of a response.
#[derive(Clone, Debug)]
pub enum ReplyPiece {
    /// These bytes in one write and one HTTP chunk.
    Bytes(Vec<u8>),
    /// Nothing for that long.
    Pause(Duration),
    /// Nothing until a file exists.
    WaitForFile(PathBuf),
    /// Nothing until the client closes the connection.
    WaitForClose,
    /// The connection is closed without the end of the body.
    Cut,
}

impl ServerReply {
    /// Returns a stream of server-sent events, in one piece.
    #[must_use]
    pub fn events(text: &str) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            pieces: vec![ReplyPiece::Bytes(text.as_bytes().to_vec())],
        }
    }

    /// Returns a response with a JSON text.
    #[must_use]
    pub fn json(status: u16, text: &str) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            pieces: vec![ReplyPiece::Bytes(text.as_bytes().to_vec())],
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds what happens after the pieces so far.
    #[must_use]
    pub fn then(mut self, piece: ReplyPiece) -> Self {
        self.pieces.push(piece);
        self
    }

    /// Cuts all bytes into pieces of `size`.
    #[must_use]
    pub fn in_pieces_of(mut self, size: usize) -> Self {
        let cut = |piece| match piece {
            ReplyPiece::Bytes(bytes) => {
                let pieces = bytes.chunks(size.max(1)).map(|part| ReplyPiece::Bytes(part.to_vec()));
                pieces.collect()
            }
            other @ (ReplyPiece::Pause(_)
            | ReplyPiece::WaitForFile(_)
            | ReplyPiece::WaitForClose
            | ReplyPiece::Cut) => vec![other],
        };
        self.pieces = self.pieces.into_iter().flat_map(cut).collect();
        self
    }
}
