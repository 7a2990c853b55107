//! Scripts that run as another user of this machine, where the tests may become one.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

#[expect(clippy::disallowed_methods, reason = "another user is another process")]
fn command(script: &str) -> Option<Command> {
    if fs_err::metadata("/proc/self").expect("a process").uid() != 0 {
        return None;
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", script])
        .current_dir("/");
    Some(command)
}

/// What a script for bash prints, run as another user; `None` where the tests may not become one.
pub(crate) fn as_other_user(script: &str) -> Option<String> {
    let ran = command(script)?.stdin(Stdio::null()).output().expect("setpriv and bash run");
    Some(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// A script of another user that goes on until this is dropped; its standard input stays open.
pub(crate) struct OtherUser {
    child: Child,
    _input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl OtherUser {
    /// Starts a script; `None` where the tests may not become another user.
    pub(crate) fn start(script: &str) -> Option<Self> {
        let mut command = command(script)?;
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.expect("setpriv and bash run");
        let _input = child.stdin.take().expect("an input");
        let output = BufReader::new(child.stdout.take().expect("an output"));
        Some(Self { child, _input, output })
    }

    /// The next line it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }
}

impl Drop for OtherUser {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
