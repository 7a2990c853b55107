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
use crate::error::StartError;
use crate::group::GroupId;
use crate::keep::Source;
use crate::output::Pump;
use crate::program::Program;
use crate::pty::{Pty, Size};
use crate::terminal::Terminal;
use crate::wire::{Exec, Job, Order, Report};

/// How to start this program again as a supervisor.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// The program itself.
    pub program: PathBuf,
    /// The arguments that make it call [`supervise()`](crate::supervise()) and nothing else.
    pub args: Vec<OsString>,
}

/// Where the command reads from and writes to.
#[derive(Debug)]
pub enum Streams<'a> {
    /// A terminal of its own.
    Terminal {
        /// How large it is at first.
        size: Size,
        /// The terminal somebody sits at, whose modes it takes over.
        outside: Option<&'a Terminal>,
        /// Whether errors go through a pipe instead, because somebody sent them elsewhere.
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
pub(crate) struct Ends {
    pub(crate) pty: Option<Pty>,
    /// Reads what the command writes. Complete before it runs: nothing can fail in between.
    pub(crate) pump: Pump,
    /// Closing it stops the pump.
    pub(crate) stopper: OwnedFd,
}

impl Supervisor {
    /// Makes the process that will become the command, and stops there.
    ///
    /// Nothing of the command has run when this returns: record [`Prepared::group`] first, then let
    /// it [`go`](Prepared::go). Dropping it takes everything back.
    ///
    /// # Errors
    ///
    /// Whatever can be known before the command itself is tried; see [`StartError`].
    pub fn prepare(&self, program: &Program, streams: Streams<'_>) -> Result<Prepared, StartError> {
        let exec = program.exec()?;
        let failed = StartError::supervisor;
        let outside = match &streams {
            Streams::Terminal { outside, .. } => *outside,
            Streams::Pipes { .. } | Streams::Given { .. } => None,
        };
        let terminal = matches!(streams, Streams::Terminal { .. });
        let (ends, theirs) = open(streams).map_err(failed("open the streams"))?;
        let job = Job {
            exec: exec.clone(),
            terminal,
            outer: outside.is_some(),
            grace_ms: u64::try_from(program.grace.as_millis()).unwrap_or(u64::MAX),
            leftover: program.leftover,
        };
        let link = self.start().map_err(failed("be started"))?;
        let fds: Vec<BorrowedFd<'_>> =
            theirs.iter().map(AsFd::as_fd).chain(outside.map(AsFd::as_fd)).collect();
        link.order(&Order::Supervise(job), &fds).map_err(failed("be told what to do"))?;
        drop(theirs);
        match link.report() {
            Ok(Some(Report::Prepared(group))) => {
                let command = Held { link, group, grace: program.grace };
                Ok(Prepared { running: Running { command, ends }, exec })
            }
            Ok(Some(Report::Failed(failure))) => Err(failure.into_error(&exec)),
            Ok(Some(other)) => Err(StartError::Reported(format!("unexpected {other:?}"))),
            Ok(None) => Err(StartError::Gone),
            Err(error) => Err(failed("report")(error)),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is where a supervisor is started")]
    fn start(&self) -> io::Result<Link> {
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
        let control = Control(Arc::new(Mutex::new(ours)));
        Ok(Link { incoming, control, child: Some(child) })
    }
}

fn open(streams: Streams<'_>) -> io::Result<(Ends, Vec<OwnedFd>)> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from);
    let mut screen = None;
    let mut pipes = Vec::new();
    let theirs = match streams {
        Streams::Given { stdin, stdout, stderr } => vec![stdin, stdout, stderr],
        Streams::Pipes { stdin } => {
            let stdin = match stdin {
                Some(stdin) => stdin,
                None => fs_err::File::open("/dev/null")?.into_parts().0.into(),
            };
            let (out, their_out) = pipe()?;
            let (err, their_err) = pipe()?;
            pipes = vec![(Source::Stdout, out), (Source::Stderr, err)];
            vec![stdin, their_out, their_err]
        }
        Streams::Terminal { size, outside, errors_apart } => {
            let (pty, slave) = Pty::open(size, outside)?;
            screen = Some(pty);
            let theirs = if errors_apart {
                let (err, their_err) = pipe()?;
                pipes = vec![(Source::Stderr, err)];
                their_err
            } else {
                slave.try_clone()?
            };
            vec![slave.try_clone()?, slave, theirs]
        }
    };
    let (stop, stopper) = pipe()?;
    let master = screen.as_ref().map(|pty| pty.as_fd().try_clone_to_owned()).transpose()?;
    let pump = Pump::new(master, pipes, stop)?;
    Ok((Ends { pty: screen, pump, stopper }, theirs))
}

/// The connection to a supervisor. Dropping it ends the group.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) incoming: Channel,
    control: Control,
    child: Option<Child>,
}

impl Link {
    fn order(&self, order: &Order, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.control.send(order, fds)
    }

    pub(crate) fn report(&self) -> io::Result<Option<Report>> {
        Ok(self.incoming.receive::<Report>()?.map(|(report, _)| report))
    }

    fn finish(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.wait().ok();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.incoming.shut_down();
        if let Some(mut child) = self.child.take() {
            // The end may take its grace period; somebody has to count the dead then.
            std::thread::spawn(move || child.wait());
        }
    }
}

/// A handle to a running command for other threads: signals and the end of the group.
///
/// It does not keep the command alive: that is what [`Running`] does.
#[derive(Clone, Debug)]
pub struct Control(Arc<Mutex<Channel>>);

impl Control {
    /// Sends a signal to the group of the command.
    ///
    /// # Errors
    ///
    /// When the supervisor is gone.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        self.send(&Order::Signal(number), &[])
    }

    /// Ends the group: SIGTERM, and SIGKILL after the grace period. Does not wait for it.
    ///
    /// # Errors
    ///
    /// When the supervisor is gone; the command has gone with it.
    pub fn end(&self) -> io::Result<()> {
        self.send(&Order::End, &[])
    }

    pub(crate) fn raw(&self, raw: bool) -> io::Result<()> {
        self.send(&Order::Raw(raw), &[])
    }

    fn send(&self, order: &Order, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(order, fds)
    }
}

/// A command that is ready to run and has not begun.
#[derive(Debug)]
pub struct Prepared {
    running: Running,
    exec: Exec,
}

impl Prepared {
    /// The identity it will have, to be recorded before it runs (R32).
    pub fn group(&self) -> &GroupId {
        &self.running.command.group
    }

    /// Lets the command run.
    ///
    /// # Errors
    ///
    /// [`StartError::NotFound`] or [`StartError::NotExecutable`] if there is nothing to run.
    pub fn go(self) -> Result<Running, StartError> {
        let failed = StartError::supervisor;
        self.running.command.link.order(&Order::Go, &[]).map_err(failed("be told to go"))?;
        match self.running.command.link.report() {
            Ok(Some(Report::Started)) => Ok(self.running),
            Ok(Some(Report::Failed(failure))) => Err(failure.into_error(&self.exec)),
            Ok(Some(other)) => Err(StartError::Reported(format!("unexpected {other:?}"))),
            Ok(None) => Err(StartError::Gone),
            Err(error) => Err(failed("report")(error)),
        }
    }
}

/// A command that runs. Dropping this ends its group.
#[derive(Debug)]
pub struct Running {
    pub(crate) command: Held,
    pub(crate) ends: Ends,
}

/// The hold on a command: its supervisor and its identity.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) link: Link,
    pub(crate) group: GroupId,
    pub(crate) grace: Duration,
}

impl Held {
    pub(crate) fn control(&self) -> Control {
        self.link.control.clone()
    }

    /// Waits until the supervisor itself is gone.
    pub(crate) fn finish(&mut self) {
        self.link.finish();
    }
}

impl Running {
    /// The identity of its group.
    pub fn group(&self) -> &GroupId {
        &self.command.group
    }

    /// A handle for other threads.
    pub fn control(&self) -> Control {
        self.command.control()
    }

    /// The owner's end of its terminal, if it has one.
    pub fn pty(&self) -> Option<&Pty> {
        self.ends.pty.as_ref()
    }
}
