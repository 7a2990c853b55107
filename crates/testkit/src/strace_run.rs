//! Runs a program under strace and keeps its output, its end and the log of its system calls.
//!
//! Knows nothing of what the calls mean; `fault` and `powerloss` read the log.

use std::{
    ffi::OsString,
    io::{self, Read},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::required_tools::{self, RequireError};

const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// Why a program could not be run under strace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// strace is missing or may not trace.
    #[error(transparent)]
    Require(#[from] RequireError),
    /// strace could not be started, or its log not be read.
    #[error("strace could not be run")]
    Io(#[from] io::Error),
    /// The program was still running after the time it was given; it has been killed.
    #[error("the traced program did not end within {0:?} and was killed")]
    Timeout(Duration),
}

/// A program that ran under strace to its end.
#[derive(Debug)]
pub(crate) struct TracedRun {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) status: ExitStatus,
    log: PathBuf,
    _dir: TempDir,
}

impl TracedRun {
    /// The log: one line per call, or two for a call that another thread interrupted in the log.
    pub(crate) fn read_log(&self) -> io::Result<String> {
        fs_err::read_to_string(&self.log)
    }
}

/// Runs program, arguments, directory and environment of `command` under strace with `options`.
pub(crate) fn run_traced(
    command: &Command,
    options: &[OsString],
    limit: Duration,
) -> Result<TracedRun, TraceError> {
    let strace = required_tools::find_strace()?;
    let dir = tempfile::Builder::new().prefix("testkit-strace-").tempdir()?;
    let log = dir.path().join("log");
    let mut traced = Command::new(strace);
    traced.args(["-f", "--seccomp-bpf", "-o"]).arg(&log).args(options).arg("--");
    traced.arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        traced.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    traced.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = traced.spawn()?;
    let stdout = spawn_pipe_reader(child.stdout.take());
    let stderr = spawn_pipe_reader(child.stderr.take());
    let status = wait_with_limit(&mut child, limit)?;
    Ok(TracedRun {
        stdout: join_pipe_reader(stdout)?,
        stderr: join_pipe_reader(stderr)?,
        status,
        log,
        _dir: dir,
    })
}

fn wait_with_limit(child: &mut Child, limit: Duration) -> Result<ExitStatus, TraceError> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > limit {
            // strace takes its tracees with it (PTRACE_O_EXITKILL).
            child.kill()?;
            child.wait()?;
            return Err(TraceError::Timeout(limit));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

type PipeReaderThread = JoinHandle<io::Result<Vec<u8>>>;

/// Reads a pipe to its end on a thread of its own, so that the program never blocks on it.
pub(crate) fn spawn_pipe_reader(pipe: Option<impl Read + Send + 'static>) -> PipeReaderThread {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    })
}

/// Waits for a reader of [`spawn_pipe_reader`].
pub(crate) fn join_pipe_reader(reader: PipeReaderThread) -> io::Result<Vec<u8>> {
    reader.join().map_err(|_| io::Error::other("the thread that reads a pipe panicked"))?
}

/// The complete lines of `bytes`; a last line without its line feed is not one.
pub(crate) fn complete_lines(bytes: &[u8]) -> Vec<String> {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&bytes[..end]).lines().map(str::to_owned).collect()
}
