//! A pager: a program that shows long output page by page and ends when the reader has seen enough.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use signal_hook::consts::{SIGINT, SIGQUIT};

use crate::command_spec::CommandSpec;
use crate::signal::SignalGuard;
use crate::umask::with_user_mask;

/// A running pager. What is written to it is shown; dropping it waits until the reader has closed it.
#[derive(Debug)]
pub struct Pager {
    child: Child,
    /// Closed before the pager is waited for.
    input: Option<ChildStdin>,
    /// The keys that interrupt a program are the pager's while it has the terminal.
    _signals: SignalGuard,
}

impl Pager {
    /// Starts a pager that writes to this process's output.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn start(spec: &CommandSpec) -> io::Result<Self> {
        let signals = SignalGuard::new(&[SIGINT, SIGQUIT])?;
        #[expect(clippy::disallowed_methods, reason = "this is where a pager is started")]
        let mut command = Command::new(&spec.program);
        command.args(&spec.args).current_dir(&spec.dir).env_clear().envs(spec.env.variables());
        let mut child = with_user_mask(|| command.stdin(Stdio::piped()).spawn())?;
        let input = child.stdin.take();
        Ok(Self { child, input, _signals: signals })
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.input.as_mut().ok_or_else(closed)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.input = None;
        // Its exit code says nothing about the output.
        self.child.wait().ok();
    }
}
