//! What owner, supervisor and launcher say to each other.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};
use turnstone_trace::TraceUnavailable;

use crate::command_spec::OrphanPolicy;
use crate::error::StartError;
use crate::exit::CommandExit;
use crate::process_group::ProcessGroupId;
use crate::trace_outcome::TraceOutcome;

/// Downwards: from the owner to the supervisor, and from there to the launcher.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SupervisorRequest {
    /// The first frame of a supervisor; the command's three streams are attached.
    Supervise(SupervisionJob),
    /// The first frame of a launcher; the same three streams are attached.
    Launch { exec: ExecSpec, is_traced: bool },
    /// Everything is recorded: become the command.
    Go,
    /// Send a signal to the command's group.
    Signal(i32),
    /// End the group.
    End,
    /// The owner is about to change the terminal outside, or has put it back.
    Raw(bool),
}

/// Upwards.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SupervisorReport {
    /// The process that becomes the command is there and waits.
    Prepared { group: ProcessGroupId, trace: TraceOutcome },
    /// The launcher has its directory and streams, and its filter if it was to install one.
    Ready(LauncherTrace),
    /// The command runs.
    Started,
    /// The command does not run.
    Failed(StartFailure),
    /// The command was stopped by this signal.
    Stopped(i32),
    /// The command ended.
    Exited(CommandExit),
    /// The supervisor is done; so many processes of the session are left, and so many were ended after the
    /// command itself.
    Ended { left: usize, ended: usize },
    /// The processes that answered for the traced command were killed; the command is being ended.
    TraceLost,
}

/// What became of the filter in a launcher.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LauncherTrace {
    NotRequested,
    /// Its listener is attached; the holders can read a text at this address of the launcher.
    Installed {
        address: u64,
    },
    Unavailable(TraceUnavailable),
}

/// What a supervisor is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SupervisionJob {
    pub(crate) exec: ExecSpec,
    /// The first stream is a terminal to be taken as the controlling one.
    pub(crate) terminal: bool,
    /// The log of a trace, if the command is to be traced.
    pub(crate) trace_log: Option<OsText>,
    /// A fourth descriptor is the terminal outside.
    pub(crate) outer: bool,
    pub(crate) grace_ms: u64,
    pub(crate) leftover: OrphanPolicy,
}

/// The command itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ExecSpec {
    pub(crate) program: OsText,
    pub(crate) args: Vec<OsText>,
    pub(crate) env: Vec<(OsText, OsText)>,
    pub(crate) dir: OsText,
    /// The file mode mask to run with; without one it is inherited.
    pub(crate) mask: Option<u32>,
}

/// Why a command does not run, as a number of the system.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartFailure {
    pub(crate) step: StartStep,
    pub(crate) errno: Option<i32>,
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StartStep {
    Prepare,
    Directory,
    Exec,
}

impl StartFailure {
    pub(crate) fn new(step: StartStep, error: &io::Error) -> Self {
        Self { step, errno: error.raw_os_error(), message: error.to_string() }
    }

    pub(crate) fn into_error(self, exec: &ExecSpec) -> StartError {
        let source = match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::other(self.message.clone()),
        };
        let program = exec.program.as_os().to_string_lossy().into_owned();
        match self.step {
            StartStep::Prepare => StartError::SupervisorReported(self.message),
            StartStep::Directory => StartError::Directory { dir: exec.dir.as_os().into(), source },
            StartStep::Exec if source.kind() == io::ErrorKind::NotFound => {
                StartError::NotFound { program }
            }
            StartStep::Exec => StartError::NotExecutable { program, source },
        }
    }
}

/// A string of the system: readable where it is text, and exact where it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EncodedOsText", into = "EncodedOsText")]
pub(crate) struct OsText(OsString);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum EncodedOsText {
    Text(String),
    Bytes(Vec<u8>),
}

impl OsText {
    pub(crate) fn as_os(&self) -> &OsStr {
        &self.0
    }
}

impl<T: Into<OsString>> From<T> for OsText {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl From<EncodedOsText> for OsText {
    fn from(written: EncodedOsText) -> Self {
        match written {
            EncodedOsText::Text(text) => Self(text.into()),
            EncodedOsText::Bytes(bytes) => Self(OsString::from_vec(bytes)),
        }
    }
}

impl From<OsText> for EncodedOsText {
    fn from(raw: OsText) -> Self {
        match raw.0.into_string() {
            Ok(text) => Self::Text(text),
            Err(other) => Self::Bytes(other.as_bytes().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_utf8_strings_round_trip() {
        for bytes in [&b"plain"[..], b"", b"\xff\xfe\x01", "ä".as_bytes()] {
            let raw = OsText::from(OsStr::from_bytes(bytes));
            let json = serde_json::to_string(&raw).unwrap();
            assert_eq!(serde_json::from_str::<OsText>(&json).unwrap(), raw, "{json}");
        }
    }
}
