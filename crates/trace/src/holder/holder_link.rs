//! The supervisor's side: making the holders, giving them the listener, hearing of their end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, setsid};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::holder::holder_message::{HolderReply, HolderRequest, StartMessage, send_start};
use crate::holder::holder_process::{HolderRole, IdleHolder};
use crate::holder::trace_writer::{TraceWriter, write_header};
use crate::install::ListenerOffer;
use crate::kernel::forked_role::{
    ForkSide, close_all_but, end_process, fork_single_threaded, ignore_signals,
};
use crate::kernel::shared_state::SharedState;
use crate::log::{Touch, TouchKind, TraceGap, TraceGapReason};
use crate::resolve::{CallerView, PathResolver, ResolveError};
use crate::unavailable::TraceUnavailable;

/// A holder that has not answered for so long was stopped by another process.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of the socket to the first primary and its replacements.
const PRIMARY: u64 = 0;
/// The number of the socket to the first standby and its replacements.
const STANDBY: u64 = 1;

/// The holders of one tree, as their supervisor knows them.
#[derive(Debug)]
pub struct TraceHolders {
    /// The sockets of the standby and of the primary, each with its replacements.
    links: Vec<(u64, UnixStream)>,
    state: &'static SharedState,
    log: Option<File>,
}

/// Makes the two holders above this process, which must have one thread.
///
/// Returns in a process two forks below the caller, with everything that the caller has open. The
/// caller's own process waits for the end of that one and ends then itself, so that who started it
/// notices no difference. The holders keep nothing that the caller has.
///
/// # Errors
///
/// When a fork fails or this process has several threads; the caller goes on without holders.
pub fn fork_holders() -> io::Result<TraceHolders> {
    let state = SharedState::map()?;
    let (standby_link, standby_control) = UnixStream::pair()?;
    let (primary_link, primary_control) = UnixStream::pair()?;
    let (standby_peer, primary_peer) = UnixStream::pair()?;
    // Only the process that returns from here keeps this end.
    let (life, life_of_supervisor) = UnixStream::pair()?;
    if let ForkSide::Parent(_) = fork_single_threaded()? {
        wait_for_supervisor(&life);
    }
    std::mem::forget(life_of_supervisor);
    drop(life);
    let timer =
        timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    if let ForkSide::Parent(child) = fork_single_threaded()? {
        let primary = pidfd_open(child, PidfdFlags::empty()).ok();
        let (role, control, peer) = (HolderRole::Standby, standby_control, standby_peer);
        IdleHolder { role, control, peer, primary, timer, number: STANDBY, state }.run();
    }
    if let ForkSide::Parent(_) = fork_single_threaded()? {
        let (role, control, peer) = (HolderRole::Primary, primary_control, primary_peer);
        IdleHolder { role, control, peer, primary: None, timer, number: PRIMARY, state }.run();
    }
    for link in [&primary_link, &standby_link] {
        link.set_read_timeout(Some(REPLY_TIMEOUT))?;
    }
    let links = vec![(PRIMARY, primary_link), (STANDBY, standby_link)];
    Ok(TraceHolders { links, state, log: None })
}

/// What the process does that was forked first: it ends when the supervisor does.
fn wait_for_supervisor(life: &UnixStream) -> ! {
    ignore_signals();
    setsid().ok();
    if close_all_but(&[life.as_fd()]).is_ok() {
        while matches!(poll(&mut [PollFd::new(life, PollFlags::IN)], None), Err(Errno::INTR)) {}
    }
    end_process(0)
}

impl TraceHolders {
    /// Gives the holders the listener, and creates the log.
    ///
    /// When this returns, both answer for the tree. The caller drops its copy of the listener.
    ///
    /// # Errors
    ///
    /// [`TraceUnavailable`]: the launcher has a filter that is not answered, and must be killed.
    pub fn start(
        &mut self,
        launcher: Pid,
        offer: &ListenerOffer,
        log: &Path,
    ) -> Result<(), TraceUnavailable> {
        let failed =
            |what: &str, error: io::Error| TraceUnavailable::Failed(format!("{what}: {error}"));
        let file = create_log(log).map_err(|error| failed("the log", error))?;
        write_header(&file, self.state).map_err(|error| failed("the log", error))?;
        let message = StartMessage {
            supervisor: getpid().as_raw_nonzero().get(),
            launcher: launcher.as_raw_nonzero().get().cast_unsigned(),
            address: offer.address,
        };
        for (_, link) in &self.links {
            send_start(link, message, [offer.listener.as_fd(), file.as_fd()])
                .map_err(|error| failed("a tracing process", error))?;
        }
        for (_, link) in &mut self.links {
            match receive_reply(link) {
                Some(HolderReply::Ready) => {}
                Some(HolderReply::MemoryNotReadable) => {
                    return Err(TraceUnavailable::MemoryNotReadable);
                }
                Some(HolderReply::Listed) | None => {
                    return Err(TraceUnavailable::Failed("a tracing process ended".to_owned()));
                }
            }
        }
        self.log = Some(file);
        Ok(())
    }

    /// Records that the command inherits a descriptor, with which it can write without opening.
    pub fn record_inherited(&self, descriptor: BorrowedFd<'_>) {
        let Some(writer) = self.writer() else { return };
        let Ok(flags) = rustix::fs::fcntl_getfl(descriptor) else { return };
        if !flags.intersects(rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::RDWR) {
            return;
        }
        let own = getpid().as_raw_nonzero().get().cast_unsigned();
        let view = CallerView { pid: own, is_ours: true };
        let found = PathResolver::new().map_err(ResolveError::from);
        match found.and_then(|paths| paths.resolve_descriptor(view, descriptor.as_raw_fd())) {
            Ok(location) => writer.into_touch(Touch {
                kind: TouchKind::OpenForWrite,
                path: location.path(),
                parent: location.parent,
                target: location.target.map(crate::resolve::FileState::to_target),
                sequence: 0,
                time: 0,
            }),
            Err(ResolveError::Nameless) => {}
            Err(_) => {
                let reason = TraceGapReason::InheritedDescriptor;
                writer.write_gap(TraceGap { reason, path: path_in_proc(descriptor), count: 1 });
            }
        }
    }

    /// The sockets whose end is the end of a holder and all its replacements.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.links.iter().map(|(_, link)| link.as_fd())
    }

    /// Drops the sockets of holders that are gone, and says whether the tree still runs without any.
    ///
    /// Such a tree cannot write any more: each of its reported calls fails.
    pub fn are_lost(&mut self) -> bool {
        self.links.retain(|(_, link)| {
            let mut fds = [PollFd::new(link, PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            !matches!(poll(&mut fds, Some(&now)), Ok(count) if count > 0)
        });
        self.links.is_empty() && !self.state.is_finished.load(Ordering::SeqCst)
    }

    /// Writes to the log that the holders were lost.
    pub fn record_loss(&self) {
        if let Some(writer) = self.writer() {
            writer.write_gap(TraceGap {
                reason: TraceGapReason::HoldersLost,
                path: None,
                count: 1,
            });
        }
    }

    /// Has the log say which processes of the tree live on, and what they have open for writing.
    ///
    /// False if no holder answered: the tree has ended, or all holders are lost.
    pub fn list_remaining(&mut self) -> bool {
        let primary = self.state.primary.load(Ordering::SeqCst);
        // The others are asked only if that one is gone: a standby that has taken over answers.
        self.links.sort_by_key(|(number, _)| *number != primary);
        self.links.iter_mut().any(|(_, link)| {
            let asked = link.write_all(&[HolderRequest::ListTree.code()]);
            asked.is_ok() && receive_reply(link) == Some(HolderReply::Listed)
        })
    }

    fn writer(&self) -> Option<TraceWriter> {
        let file = self.log.as_ref()?.try_clone().ok()?;
        Some(TraceWriter::new(file, self.state))
    }
}

fn receive_reply(link: &mut UnixStream) -> Option<HolderReply> {
    let mut code = [0];
    link.read_exact(&mut code).ok()?;
    let [code] = code;
    HolderReply::from_code(code)
}

/// Creates the log. Its lock is held by everything that may still write it, and tells readers of that.
fn create_log(path: &Path) -> io::Result<File> {
    let mut options = fs_err::File::options();
    let options = options.read(true).write(true).create_new(true);
    let file = fs_err::os::unix::fs::OpenOptionsExt::mode(options, 0o600).open(path)?;
    let (file, _) = file.into_parts();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn path_in_proc(descriptor: BorrowedFd<'_>) -> Option<PathBuf> {
    fs_err::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).ok()
}
