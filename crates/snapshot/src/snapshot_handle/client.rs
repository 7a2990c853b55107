//! Requests to the store owner: one connection for each.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::error::{StoreFailure, StoreFailureKind};
use super::message_frame::{self, FrameError};
use super::protocol::{RequestEnvelope, StoreResponse};
use super::socket;

/// How long a request may take to be sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum RequestError {
    /// No process listens, the owner ended meanwhile, or it is busy: retry.
    Unavailable(io::Error),
    /// It is there and does not respond.
    TimedOut(io::Error),
    /// It refused, or it cannot be understood.
    Refused(StoreFailure),
}

/// Asks and waits for the answer, `patience` at most.
pub(super) fn send_request(
    path: &Path,
    envelope: &RequestEnvelope,
    patience: Duration,
) -> Result<StoreResponse, RequestError> {
    let stream = socket::connect(path).map_err(RequestError::Unavailable)?;
    stream.set_write_timeout(Some(SEND_TIMEOUT)).map_err(RequestError::Unavailable)?;
    stream.set_read_timeout(Some(patience)).map_err(RequestError::Unavailable)?;
    // An owner that refuses at once may have closed before all was sent: its answer counts.
    match message_frame::write_frame(&stream, envelope) {
        Ok(()) | Err(FrameError::Disconnected(_)) => {}
        Err(error @ (FrameError::TooLarge(_) | FrameError::Malformed(_))) => {
            return Err(to_refusal(&error));
        }
    }
    match message_frame::read_frame(&stream) {
        Ok(StoreResponse::Failed(failure)) if failure.kind == StoreFailureKind::Busy => {
            Err(RequestError::Unavailable(io::Error::other(failure)))
        }
        Ok(StoreResponse::Failed(failure)) => Err(RequestError::Refused(failure)),
        Ok(answer) => Ok(answer),
        Err(FrameError::Disconnected(error)) if is_timeout(&error) => {
            Err(RequestError::TimedOut(error))
        }
        Err(FrameError::Disconnected(error)) => Err(RequestError::Unavailable(error)),
        Err(error @ (FrameError::TooLarge(_) | FrameError::Malformed(_))) => {
            Err(to_refusal(&error))
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn to_refusal(error: &FrameError) -> RequestError {
    let kind = match error {
        FrameError::TooLarge(_) => StoreFailureKind::TooLarge,
        FrameError::Disconnected(_) | FrameError::Malformed(_) => StoreFailureKind::Malformed,
    };
    RequestError::Refused(StoreFailure::new(kind, error.to_string()))
}
