//! Asking a keeper: one connection for one request.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::error::{Failure, FailureKind};
use super::frame::{self, FrameError};
use super::request::{Answer, Envelope};
use super::socket;

/// How long a request may take to be sent.
const SENDING: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Nobody listens, the keeper ended meanwhile, or it has too much to do: ask again.
    Gone(io::Error),
    /// It is there and says nothing.
    Silent(io::Error),
    /// It refused, or it cannot be understood.
    Refused(Failure),
}

/// Asks and waits for the answer, `patience` at most.
pub(super) fn ask(
    path: &Path,
    envelope: &Envelope,
    patience: Duration,
) -> Result<Answer, Unanswered> {
    let stream = socket::connect(path).map_err(Unanswered::Gone)?;
    stream.set_write_timeout(Some(SENDING)).map_err(Unanswered::Gone)?;
    stream.set_read_timeout(Some(patience)).map_err(Unanswered::Gone)?;
    // A keeper that refuses at once may have closed before all was sent: its answer counts.
    match frame::write(&stream, envelope) {
        Ok(()) | Err(FrameError::Cut(_)) => {}
        Err(error @ (FrameError::TooLarge(_) | FrameError::Malformed(_))) => {
            return Err(refused(&error));
        }
    }
    match frame::read(&stream) {
        Ok(Answer::Failed(failure)) if failure.kind == FailureKind::Busy => {
            Err(Unanswered::Gone(io::Error::other(failure)))
        }
        Ok(Answer::Failed(failure)) => Err(Unanswered::Refused(failure)),
        Ok(answer) => Ok(answer),
        Err(FrameError::Cut(error)) if is_timeout(&error) => Err(Unanswered::Silent(error)),
        Err(FrameError::Cut(error)) => Err(Unanswered::Gone(error)),
        Err(error @ (FrameError::TooLarge(_) | FrameError::Malformed(_))) => Err(refused(&error)),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn refused(error: &FrameError) -> Unanswered {
    let kind = match error {
        FrameError::TooLarge(_) => FailureKind::TooLarge,
        FrameError::Cut(_) | FrameError::Malformed(_) => FailureKind::Malformed,
    };
    Unanswered::Refused(Failure::new(kind, error.to_string()))
}
