//! Starting git, as OpenCode does: output piped, with or without something on its input.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::Fallible;

/// A command of the peer took longer than it is given.
#[derive(Debug)]
pub(crate) struct TimeLimitExceeded;

impl std::fmt::Display for TimeLimitExceeded {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a command of the peer was stopped at the limit")
    }
}

impl std::error::Error for TimeLimitExceeded {}

/// A git command in `dir`, without the configuration of the user who runs the benchmark.
pub(crate) fn git_command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

/// Runs a git command that is no part of what is measured.
pub(crate) fn run_git(dir: &Path, args: &[&str]) -> Fallible {
    let done = git_command(dir).args(args).stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr)).into())
}

/// Runs a command to its end, or kills it at the limit; returns how it ended and what it printed.
pub(crate) fn run_with_limit(
    mut command: Command,
    input: Option<&[u8]>,
    limit: Duration,
) -> Fallible<(ExitStatus, Vec<u8>)> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut stdout = stdout.ok_or("the output was piped")?;
    let mut printed = Vec::new();
    let pid = child.id();
    let over = std::thread::scope(|scope| -> Fallible<bool> {
        let (done, waits) = mpsc::channel::<()>();
        let guard = scope.spawn(move || {
            let over = waits.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            // Nobody has waited for the child yet, so the number is still its own.
            over && Command::new("kill").args(["-9", &pid.to_string()]).status().is_ok()
        });
        if let (Some(mut stdin), Some(input)) = (stdin.take(), input) {
            // A child that does not read to the end says why with its status.
            scope.spawn(move || stdin.write_all(input).ok());
        }
        stdout.read_to_end(&mut printed)?;
        drop(done);
        Ok(guard.join().unwrap_or(true))
    })?;
    let status = child.wait()?;
    if over && !status.success() {
        return Err(TimeLimitExceeded.into());
    }
    Ok((status, printed))
}
