//! One git process while it runs: its streams, its limits, and its end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::cancellation::Cancellations;
use super::error::GitError;
use super::interrupt::InterruptListener;
use super::progress::ProgressWatch;
use super::run::GitOutput;
use crate::deadline::Deadline;
use crate::exit::CommandExit;

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct GitLimits {
    /// The longest one command may take.
    pub time: Duration,
    /// The longest one command may do nothing: no processor time, nothing read, nothing written.
    pub stall: Duration,
    /// The most one command may write, output and errors each.
    pub output: usize,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), stall: Duration::from_secs(10), output: 64 << 20 }
    }
}

/// A child that is killed with its group unless it has ended when this is dropped.
pub(super) struct GitChild<'a> {
    child: Child,
    group: Option<Pid>,
    cancellations: &'a Cancellations,
}

impl<'a> GitChild<'a> {
    pub(super) fn new(child: Child, cancellations: &'a Cancellations) -> Self {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            cancellations.register(group);
        }
        Self { child, group, cancellations }
    }

    /// Reads both streams and waits, within the limits.
    pub(super) fn collect(
        &mut self,
        limits: GitLimits,
        command: &str,
    ) -> Result<io::Result<GitOutput>, GitError> {
        let cancelled = || GitError::Cancelled { command: command.to_owned() };
        let read = self.read_streams(limits, command)?;
        if self.cancellations.is_cancelled() {
            return Err(cancelled());
        }
        let [stdout, stderr] = match read {
            Ok(streams) => streams,
            Err(error) => return Ok(Err(error)),
        };
        let exit = self.wait();
        if self.cancellations.is_cancelled() {
            return Err(cancelled());
        }
        Ok(exit.map(|exit| GitOutput { exit, stdout, stderr }))
    }

    fn read_streams(
        &mut self,
        limits: GitLimits,
        command: &str,
    ) -> Result<io::Result<[Vec<u8>; 2]>, GitError> {
        let mut streams = match Streams::of(&mut self.child) {
            Ok(streams) => streams,
            Err(error) => return Ok(Err(error)),
        };
        let interrupts = match InterruptListener::start() {
            Ok(interrupts) => interrupts,
            Err(error) => return Ok(Err(error)),
        };
        let group = self.group.map_or(0, |group| group.as_raw_nonzero().get());
        let mut progress = ProgressWatch::new(group, limits.stall);
        let deadline = Deadline::after(limits.time);
        let command = || command.to_owned();
        while streams.are_open() {
            if deadline.is_over() {
                return Err(GitError::TimedOut { command: command(), limit: limits.time });
            }
            match streams.read(deadline.or_earlier(progress.next_look()), interrupts.as_ref()) {
                Ok(true) => progress.record_progress(),
                Ok(false) if progress.has_stalled() => {
                    return Err(GitError::Stalled { command: command(), limit: limits.stall });
                }
                Ok(false) => {}
                Err(error) => return Ok(Err(error)),
            }
            if let Some(interrupts) = &interrupts {
                interrupts.obey();
            }
            if streams.longest() > limits.output {
                return Err(GitError::TooMuch { command: command(), limit: limits.output });
            }
        }
        Ok(Ok(streams.0.map(|stream| stream.bytes)))
    }

    /// Waits for the end. Its number stays its own until nothing can signal it any more.
    fn wait(&mut self) -> io::Result<CommandExit> {
        if let Some(group) = self.group {
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            rustix::io::retry_on_intr(|| waitid(WaitId::Pid(group), ended))?;
        }
        self.unregister();
        Ok(to_exit(self.child.wait()?))
    }

    fn unregister(&mut self) {
        if let Some(group) = self.group.take() {
            self.cancellations.unregister(group);
        }
    }
}

impl Drop for GitChild<'_> {
    fn drop(&mut self) {
        // Not reaped yet, so the number is still that of the group.
        let Some(group) = self.group else { return };
        kill_process_group(group, Signal::KILL).ok();
        self.wait().ok();
        self.unregister();
    }
}

fn to_exit(status: ExitStatus) -> CommandExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandExit::Code(code),
        (None, signal) => CommandExit::Signal(signal.unwrap_or_default()),
    }
}

/// Output and errors of a child.
struct Streams([ChildStream; 2]);

impl Streams {
    fn of(child: &mut Child) -> io::Result<Self> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let streams = [stdout.map(OwnedFd::from), stderr.map(OwnedFd::from)];
        let streams = streams.map(|fd| ChildStream { fd, bytes: Vec::new() });
        streams.iter().try_for_each(ChildStream::set_nonblocking)?;
        Ok(Self(streams))
    }

    fn are_open(&self) -> bool {
        self.0.iter().any(|stream| stream.fd.is_some())
    }

    /// The length of the longer one.
    fn longest(&self) -> usize {
        self.0.iter().map(|stream| stream.bytes.len()).max().unwrap_or_default()
    }

    /// Waits for bytes, for an end or for a signal, and takes what is there; false if nothing came.
    fn read(
        &mut self,
        deadline: Deadline,
        interrupts: Option<&InterruptListener>,
    ) -> io::Result<bool> {
        let is_ready = {
            let open = self.0.iter().filter_map(|stream| stream.fd.as_ref()).map(AsFd::as_fd);
            let all = open.chain(interrupts.map(AsFd::as_fd));
            let mut fds: Vec<_> =
                all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            match poll(&mut fds, deadline.timespec().as_ref()) {
                Ok(count) => count > 0,
                Err(Errno::INTR) => true,
                Err(errno) => return Err(errno.into()),
            }
        };
        self.0.iter_mut().try_for_each(ChildStream::read_available)?;
        Ok(is_ready)
    }
}

/// One stream of a child; closed once it has ended.
struct ChildStream {
    fd: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl ChildStream {
    fn set_nonblocking(&self) -> io::Result<()> {
        if let Some(fd) = &self.fd {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(())
    }

    fn read_available(&mut self) -> io::Result<()> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let mut buffer = [0; 16 << 10];
        match read(fd.as_fd(), &mut buffer) {
            Ok(0) => self.fd = None,
            Ok(count) => self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }
}
