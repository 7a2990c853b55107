//! Finds out whether commands can be traced here, by preparing one that never runs.

use std::ffi::OsString;

use serde_json::{Value, json};
use turnstone_process::{CommandSpec, CommandStdio, SupervisorProgram, TraceOptions, TraceOutcome};

use crate::app::CliApp;
use crate::error::CliError;

/// Whether commands are traced here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TracingState {
    /// They are.
    On,
    /// The configuration says no.
    Disabled,
    /// It is impossible: why.
    Unavailable(String),
}

impl TracingState {
    /// Tries it.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    pub(crate) fn probe(app: &CliApp) -> Result<Self, CliError> {
        if !app.read_config()?.exec.trace {
            return Ok(Self::Disabled);
        }
        let supervisor = SupervisorProgram {
            program: app.executable_path()?.to_owned(),
            args: vec![OsString::from("supervise")],
        };
        let folder = match tempfile::tempdir() {
            Ok(folder) => folder,
            Err(error) => return Ok(Self::Unavailable(error.to_string())),
        };
        let mut program = CommandSpec::new("/bin/sh", "/");
        program.trace = Some(TraceOptions { log: folder.path().join("trace") });
        // Dropped before it is started: nothing of it runs.
        Ok(match supervisor.prepare(&program, CommandStdio::Pipes { stdin: None }) {
            Ok(prepared) => match prepared.trace() {
                TraceOutcome::Traced => Self::On,
                TraceOutcome::NotRequested => Self::Disabled,
                TraceOutcome::Unavailable(why) => Self::Unavailable(why.to_string()),
            },
            Err(error) => Self::Unavailable(error.to_string()),
        })
    }

    /// For `--json`.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::On => json!({ "state": "on" }),
            Self::Disabled => json!({ "state": "disabled" }),
            Self::Unavailable(why) => json!({ "state": "unavailable", "reason": why }),
        }
    }

    /// For people.
    pub(crate) fn describe(&self) -> String {
        let meaning = "changes by others count as the command's";
        match self {
            Self::On => "on; what others change while a command runs is left alone".to_owned(),
            Self::Disabled => format!("off (configuration); {meaning}"),
            Self::Unavailable(why) => format!("not available: {why}; {meaning}"),
        }
    }
}
