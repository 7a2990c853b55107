//! The response to a request, read piece by piece.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

use crate::OutboundError;

/// Pieces that wait for a slow reader; then the host has to wait too.
const WAITING_PIECES: usize = 16;

/// Status and headers of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status.
    pub status: u16,
    /// The headers with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// Where the response came from after redirects, without credentials and query.
    pub url: String,
}

impl ResponseHead {
    /// Returns the first header of that name, which is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) enum ResponsePiece {
    Head(ResponseHead),
    Chunk(Vec<u8>),
    End,
}

pub(crate) type PieceSender = Sender<Result<ResponsePiece, OutboundError>>;

/// A response under way. Dropping it closes the connection.
///
/// Its methods block; they must not be called on a thread that runs asynchronous tasks.
pub struct ResponseStream {
    pieces: Receiver<Result<ResponsePiece, OutboundError>>,
    canceller: RequestCanceller,
    progress: ReadProgress,
}

#[derive(Debug)]
enum ReadProgress {
    BeforeHead,
    Body,
    Complete,
    Failed(OutboundError),
}

/// Ends a request from another thread.
#[derive(Clone)]
pub struct RequestCanceller {
    is_cancelled: Arc<AtomicBool>,
    task: Option<AbortHandle>,
}

impl RequestCanceller {
    /// Closes the connection; the reader of the response gets `Cancelled`.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl ResponseStream {
    /// Returns a stream of what `start` sends.
    pub(crate) fn open(start: impl FnOnce(PieceSender) -> Option<AbortHandle>) -> Self {
        let (sender, pieces) = channel(WAITING_PIECES);
        let task = start(sender);
        let canceller = RequestCanceller { is_cancelled: Arc::default(), task };
        Self { pieces, canceller, progress: ReadProgress::BeforeHead }
    }

    /// Returns a stream that has failed.
    pub(crate) fn failed(error: OutboundError) -> Self {
        let mut stream = Self::open(|_| None);
        stream.progress = ReadProgress::Failed(error);
        stream
    }

    /// Returns what cancels the request from another thread.
    #[must_use]
    pub fn canceller(&self) -> RequestCanceller {
        self.canceller.clone()
    }

    /// Waits for status and headers. Call it once, before the body is read.
    pub fn read_head(&mut self) -> Result<ResponseHead, OutboundError> {
        match self.receive()? {
            ResponsePiece::Head(head) => {
                self.progress = ReadProgress::Body;
                Ok(head)
            }
            ResponsePiece::Chunk(_) | ResponsePiece::End => Err(self.fail("a body without head")),
        }
    }

    /// Waits for the next piece of the body. Returns `None` once the body is complete.
    pub fn read_chunk(&mut self) -> Result<Option<Vec<u8>>, OutboundError> {
        if let ReadProgress::BeforeHead = self.progress {
            self.read_head()?;
        }
        if let ReadProgress::Complete = self.progress {
            return Ok(None);
        }
        match self.receive()? {
            ResponsePiece::Chunk(chunk) => Ok(Some(chunk)),
            ResponsePiece::End => {
                self.progress = ReadProgress::Complete;
                Ok(None)
            }
            ResponsePiece::Head(_) => Err(self.fail("two heads")),
        }
    }

    /// Reads the rest of the body.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, OutboundError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.read_chunk()? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn receive(&mut self) -> Result<ResponsePiece, OutboundError> {
        if let ReadProgress::Failed(error) = &self.progress {
            return Err(error.clone());
        }
        let received = self.pieces.blocking_recv();
        if self.canceller.is_cancelled.load(Ordering::Acquire) {
            self.progress = ReadProgress::Failed(OutboundError::Cancelled);
            return Err(OutboundError::Cancelled);
        }
        match received {
            Some(Ok(piece)) => Ok(piece),
            Some(Err(error)) => {
                self.progress = ReadProgress::Failed(error.clone());
                Err(error)
            }
            None => Err(self.fail("the request ended without a result")),
        }
    }

    fn fail(&mut self, reason: &str) -> OutboundError {
        let error = OutboundError::Setup { reason: reason.to_owned() };
        self.progress = ReadProgress::Failed(error.clone());
        error
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.canceller.cancel();
    }
}
