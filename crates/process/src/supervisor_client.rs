//! The owner's side: start a supervisor, record what it prepared, let it go, and hold on to it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::channel::Channel;
use crate::command_spec::CommandSpec;
use crate::error::StartError;
use crate::multiplexer::StreamMultiplexer;
use crate::output_recorder::OutputSource;
use crate::process_group::ProcessGroupId;
use crate::protocol::{ExecSpec, OsText, SupervisionJob, SupervisorReport, SupervisorRequest};
use crate::pty::{Pty, TerminalSize};
use crate::terminal::StdioTerminal;
use crate::trace_outcome::TraceOutcome;

/// How to start this program again as a supervisor.
#[derive(Clone, Debug)]
pub struct SupervisorProgram {
    /// The program itself.
    pub program: PathBuf,
    /// The arguments that make it call [`run_supervisor`](crate::run_supervisor) and nothing else.
    pub args: Vec<OsString>,
}

/// Where the command reads from and writes to.
#[derive(Debug)]
pub enum CommandStdio<'a> {
    /// A terminal of its own.
    Terminal {
        /// How large it is at first.
        size: TerminalSize,
        /// The user's terminal, whose modes it takes over.
        outside: Option<&'a StdioTerminal>,
        /// True if errors go through a pipe instead, because they are redirected.
        errors_apart: bool,
    },
    /// Pipes, output and errors apart.
    Pipes {
        /// What it reads; nothing for an empty input.
        stdin: Option<OwnedFd>,
    },
    /// What the caller gives; nothing of it is seen here.
    Given {
        /// What it reads.
        stdin: OwnedFd,
        /// Where it writes.
        stdout: OwnedFd,
        /// Where it complains.
        stderr: OwnedFd,
    },
}

/// The owner's ends of the command's streams.
#[derive(Debug)]
pub(crate) struct OwnerStreams {
    pub(crate) pty: Option<Pty>,
    /// Reads what the command writes. Complete before it runs: nothing can fail in between.
    pub(crate) multiplexer: StreamMultiplexer,
    /// Closing it stops the pump.
    pub(crate) stopper: OwnedFd,
}

impl SupervisorProgram {
    /// Makes the process that will become the command, and stops there.
    ///
    /// Nothing of the command has run when this returns: record [`PreparedCommand::group`] first, then let
    /// it [`go`](PreparedCommand::start). Dropping it takes everything back.
    ///
    /// # Errors
    ///
    /// Whatever can be known before the command itself is tried; see [`StartError`].
    pub fn prepare(
        &self,
        program: &CommandSpec,
        streams: CommandStdio<'_>,
    ) -> Result<PreparedCommand, StartError> {
        let exec = program.to_exec_spec()?;
        let failed = StartError::supervisor;
        let outside = match &streams {
            CommandStdio::Terminal { outside, .. } => *outside,
            CommandStdio::Pipes { .. } | CommandStdio::Given { .. } => None,
        };
        let terminal = matches!(streams, CommandStdio::Terminal { .. });
        let (ends, theirs) = open_streams(streams).map_err(failed("open the streams"))?;
        let job = SupervisionJob {
            exec: exec.clone(),
            terminal,
            outer: outside.is_some(),
            grace_ms: u64::try_from(program.grace.as_millis()).unwrap_or(u64::MAX),
            leftover: program.orphan_policy,
            trace_log: program.trace.as_ref().map(|trace| OsText::from(trace.log.as_os_str())),
        };
        let link = self.spawn().map_err(failed("be started"))?;
        let fds: Vec<BorrowedFd<'_>> =
            theirs.iter().map(AsFd::as_fd).chain(outside.map(AsFd::as_fd)).collect();
        link.send_request(&SupervisorRequest::Supervise(job), &fds)
            .map_err(failed("receive its command"))?;
        drop(theirs);
        match link.receive_report() {
            Ok(Some(SupervisorReport::Prepared { group, trace })) => {
                let command = CommandHandle { link, group, grace: program.grace };
                Ok(PreparedCommand { running: RunningCommand { command, ends, trace }, exec })
            }
            Ok(Some(SupervisorReport::Failed(failure))) => Err(failure.into_error(&exec)),
            Ok(Some(other)) => Err(StartError::SupervisorReported(format!("unexpected {other:?}"))),
            Ok(None) => Err(StartError::SupervisorGone),
            Err(error) => Err(failed("report")(error)),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is where a supervisor is started")]
    fn spawn(&self) -> io::Result<SupervisorLink> {
        let (ours, theirs) = Channel::pair()?;
        let child = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let incoming = ours.try_clone()?;
        let control = CommandControl(Arc::new(Mutex::new(ours)));
        Ok(SupervisorLink { incoming, control, child: Some(child) })
    }
}

fn open_streams(streams: CommandStdio<'_>) -> io::Result<(OwnerStreams, Vec<OwnedFd>)> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
    let mut screen = None;
    let mut pipes = Vec::new();
    let theirs = match streams {
        CommandStdio::Given { stdin, stdout, stderr } => vec![stdin, stdout, stderr],
        CommandStdio::Pipes { stdin } => {
            let stdin = match stdin {
                Some(stdin) => stdin,
                None => fs_err::File::open("/dev/null")?.into_parts().0.into(),
            };
            let (out, their_out) = pipe()?;
            let (err, their_err) = pipe()?;
            pipes = vec![(OutputSource::Stdout, out), (OutputSource::Stderr, err)];
            vec![stdin, their_out, their_err]
        }
        CommandStdio::Terminal { size, outside, errors_apart } => {
            let (pty, slave) = Pty::open(size, outside)?;
            screen = Some(pty);
            let theirs = if errors_apart {
                let (err, their_err) = pipe()?;
                pipes = vec![(OutputSource::Stderr, err)];
                their_err
            } else {
                slave.try_clone()?
            };
            vec![slave.try_clone()?, slave, theirs]
        }
    };
    let (stop, stopper) = pipe()?;
    let master = screen.as_ref().map(|pty| pty.as_fd().try_clone_to_owned()).transpose()?;
    let pump = StreamMultiplexer::new(master, pipes, stop)?;
    Ok((OwnerStreams { pty: screen, multiplexer: pump, stopper }, theirs))
}

/// The connection to a supervisor. Dropping it ends the group.
#[derive(Debug)]
pub(crate) struct SupervisorLink {
    pub(crate) incoming: Channel,
    control: CommandControl,
    child: Option<Child>,
}

impl SupervisorLink {
    fn send_request(&self, order: &SupervisorRequest, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.control.send(order, fds)
    }

    pub(crate) fn receive_report(&self) -> io::Result<Option<SupervisorReport>> {
        Ok(self.incoming.receive::<SupervisorReport>()?.map(|(report, _)| report))
    }

    fn wait(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.wait().ok();
        }
    }
}

impl Drop for SupervisorLink {
    fn drop(&mut self) {
        self.incoming.shut_down();
        if let Some(mut child) = self.child.take() {
            // Ending may take its grace period; the processes that end meanwhile have to be reaped.
            std::thread::spawn(move || child.wait());
        }
    }
}

/// A handle to a running command for other threads: signals and the end of the group.
///
/// It does not keep the command alive: that is what [`RunningCommand`] does.
#[derive(Clone, Debug)]
pub struct CommandControl(Arc<Mutex<Channel>>);

impl CommandControl {
    /// Sends a signal to the group of the command.
    ///
    /// # Errors
    ///
    /// When the supervisor is gone.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        self.send(&SupervisorRequest::Signal(number), &[])
    }

    /// Ends the group: SIGTERM, and SIGKILL after the grace period. Does not wait for it.
    ///
    /// # Errors
    ///
    /// When the supervisor is gone; the command has gone with it.
    pub fn end(&self) -> io::Result<()> {
        self.send(&SupervisorRequest::End, &[])
    }

    pub(crate) fn set_raw_mode(&self, raw: bool) -> io::Result<()> {
        self.send(&SupervisorRequest::Raw(raw), &[])
    }

    fn send(&self, order: &SupervisorRequest, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(order, fds)
    }
}

/// A command that is ready to run and has not begun.
#[derive(Debug)]
pub struct PreparedCommand {
    running: RunningCommand,
    exec: ExecSpec,
}

impl PreparedCommand {
    /// The identity it will have, to be recorded before it runs (R32).
    pub fn group(&self) -> &ProcessGroupId {
        &self.running.command.group
    }

    /// Whether the command will be traced.
    pub fn trace(&self) -> &TraceOutcome {
        self.running.trace()
    }

    /// Lets the command run.
    ///
    /// # Errors
    ///
    /// [`StartError::NotFound`] or [`StartError::NotExecutable`] if there is nothing to run.
    pub fn start(self) -> Result<RunningCommand, StartError> {
        let failed = StartError::supervisor;
        self.running
            .command
            .link
            .send_request(&SupervisorRequest::Go, &[])
            .map_err(failed("receive the start signal"))?;
        match self.running.command.link.receive_report() {
            Ok(Some(SupervisorReport::Started)) => Ok(self.running),
            Ok(Some(SupervisorReport::Failed(failure))) => Err(failure.into_error(&self.exec)),
            Ok(Some(other)) => Err(StartError::SupervisorReported(format!("unexpected {other:?}"))),
            Ok(None) => Err(StartError::SupervisorGone),
            Err(error) => Err(failed("report")(error)),
        }
    }
}

/// A command that runs. Dropping this ends its group.
#[derive(Debug)]
pub struct RunningCommand {
    pub(crate) command: CommandHandle,
    pub(crate) ends: OwnerStreams,
    trace: TraceOutcome,
}

/// The hold on a command: its supervisor and its identity.
#[derive(Debug)]
pub(crate) struct CommandHandle {
    pub(crate) link: SupervisorLink,
    pub(crate) group: ProcessGroupId,
    pub(crate) grace: Duration,
}

impl CommandHandle {
    pub(crate) fn control(&self) -> CommandControl {
        self.link.control.clone()
    }

    /// Waits until the supervisor itself is gone.
    pub(crate) fn wait(&mut self) {
        self.link.wait();
    }
}

impl RunningCommand {
    /// The identity of its group.
    pub fn group(&self) -> &ProcessGroupId {
        &self.command.group
    }

    /// Whether the command is traced.
    pub fn trace(&self) -> &TraceOutcome {
        &self.trace
    }

    /// A handle for other threads.
    pub fn control(&self) -> CommandControl {
        self.command.control()
    }

    /// The owner's end of its terminal, if it has one.
    pub fn pty(&self) -> Option<&Pty> {
        self.ends.pty.as_ref()
    }
}
