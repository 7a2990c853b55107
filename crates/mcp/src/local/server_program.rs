//! Starting a program under a supervisor: it ends with its owner, and with everything that it started.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use turnstone_process::{
    CommandEnvironment, CommandSpec, CommandStdio, RunningCommand, SupervisorProgram,
};

use crate::ToolServerError;

/// The time between SIGTERM and SIGKILL when a server is ended.
const GRACE: Duration = Duration::from_secs(2);

/// A server that runs, and the ends of its streams. Dropping `command` ends it.
pub(crate) struct ServerProgram {
    pub(crate) command: RunningCommand,
    pub(crate) stdin: File,
    pub(crate) stdout: File,
    pub(crate) stderr: File,
}

/// What to start.
pub(crate) struct ProgramLine<'p> {
    pub(crate) program: &'p OsString,
    pub(crate) args: &'p [OsString],
    pub(crate) directory: &'p Path,
    pub(crate) environment: &'p [(OsString, OsString)],
}

/// Starts a server.
pub(crate) fn start_program(
    supervisor: &SupervisorProgram,
    line: &ProgramLine<'_>,
) -> Result<ServerProgram, ToolServerError> {
    let failed = |error: &dyn std::error::Error| ToolServerError::unavailable(error.to_string());
    let pipe = || {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(&error))?;
        Ok::<_, ToolServerError>((reader, writer))
    };
    let (their_stdin, stdin) = pipe()?;
    let (stdout, their_stdout) = pipe()?;
    let (stderr, their_stderr) = pipe()?;
    let mut spec = CommandSpec::new(line.program, line.directory)
        .args(line.args)
        .env(CommandEnvironment::exact(line.environment.iter().cloned()));
    spec.grace = GRACE;
    let stdio =
        CommandStdio::Given { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
    let prepared = supervisor.prepare(&spec, stdio).map_err(|error| failed(&error))?;
    let command = prepared.start().map_err(|error| failed(&error))?;
    Ok(ServerProgram { command, stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() })
}
