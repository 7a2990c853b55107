//! The supervisor's side of the launcher: start it, hand it the streams, give its listener to the holders.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use turnstone_trace::{ListenerOffer, TraceHolders, TraceUnavailable};

use crate::channel::Channel;
use crate::protocol::{
    LauncherTrace, StartFailure, SupervisionJob, SupervisorReport, SupervisorRequest,
};
use crate::trace_outcome::TraceOutcome;

/// A launcher that waits for the word to become the command.
pub(crate) struct PreparedLauncher {
    pub(crate) launcher: Channel,
    pub(crate) leader: Pid,
    pub(crate) trace: TraceOutcome,
    /// The processes that answer for it, if it is traced.
    pub(crate) holders: Option<TraceHolders>,
}

/// A launcher as it reported itself.
struct ReadyLauncher {
    channel: Channel,
    pid: Pid,
    trace: LauncherTrace,
    listener: Option<OwnedFd>,
}

/// Starts a launcher, traced if that is asked and possible, untraced otherwise.
///
/// The inner error is the launcher's own report.
pub(crate) fn prepare_launcher(
    job: &SupervisionJob,
    streams: &[OwnedFd],
    holders: Option<io::Result<TraceHolders>>,
) -> io::Result<Result<PreparedLauncher, StartFailure>> {
    let unavailable = match (&job.trace_log, holders) {
        (Some(log), Some(Ok(holders))) => {
            match prepare_traced(job, Path::new(log.as_os()), streams, holders)? {
                TracedStart::Prepared(prepared) => return Ok(Ok(prepared)),
                TracedStart::Failed(failure) => return Ok(Err(failure)),
                TracedStart::Unavailable(reason) => Some(reason),
            }
        }
        (Some(_), Some(Err(error))) => Some(TraceUnavailable::Failed(error.to_string())),
        _ => None,
    };
    let trace = unavailable.map_or(TraceOutcome::NotRequested, TraceOutcome::Unavailable);
    Ok(match start_launcher(job, streams, false)? {
        Some(Ok(ready)) => Ok(PreparedLauncher {
            launcher: ready.channel,
            leader: ready.pid,
            trace,
            holders: None,
        }),
        Some(Err(failure)) => Err(failure),
        None => return Err(io::Error::other("the launcher ended too early")),
    })
}

/// How the start of a traced launcher went.
enum TracedStart {
    Prepared(PreparedLauncher),
    /// The command cannot be started, traced or not.
    Failed(StartFailure),
    /// It cannot be traced; the launcher that tried is gone.
    Unavailable(TraceUnavailable),
}

fn prepare_traced(
    job: &SupervisionJob,
    log: &Path,
    streams: &[OwnedFd],
    mut holders: TraceHolders,
) -> io::Result<TracedStart> {
    let ready = match start_launcher(job, streams, true)? {
        Some(Ok(ready)) => ready,
        Some(Err(failure)) => return Ok(TracedStart::Failed(failure)),
        // A policy kills who asks for a filter.
        None => return Ok(TracedStart::Unavailable(TraceUnavailable::RefusedByPolicy)),
    };
    let offer = match (ready.trace, ready.listener) {
        (LauncherTrace::Installed { address }, Some(listener)) => {
            ListenerOffer { listener, address }
        }
        (LauncherTrace::Unavailable(reason), _) => {
            end_launcher(ready.pid)?;
            return Ok(TracedStart::Unavailable(reason));
        }
        _ => return Err(io::Error::other("the launcher sent no listener")),
    };
    let started = holders.start(ready.pid, &offer, log);
    // No copy may outlive the holders: a tree with a listener that nothing reads waits without end.
    drop(offer);
    if let Err(reason) = started {
        end_launcher(ready.pid)?;
        fs_err::remove_file(log).ok();
        return Ok(TracedStart::Unavailable(reason));
    }
    for stream in streams {
        holders.record_inherited(stream.as_fd());
    }
    Ok(TracedStart::Prepared(PreparedLauncher {
        launcher: ready.channel,
        leader: ready.pid,
        trace: TraceOutcome::Traced,
        holders: Some(holders),
    }))
}

/// Starts a launcher and waits until it is ready; `None` if it died before it could report.
fn start_launcher(
    job: &SupervisionJob,
    streams: &[OwnedFd],
    is_traced: bool,
) -> io::Result<Option<Result<ReadyLauncher, StartFailure>>> {
    let (channel, pid) = spawn_launcher()?;
    let fds: Vec<_> = streams.iter().map(AsFd::as_fd).collect();
    channel.send(&SupervisorRequest::Launch { exec: job.exec.clone(), is_traced }, &fds)?;
    match channel.receive::<SupervisorReport>()? {
        Some((SupervisorReport::Ready(trace), fds)) => {
            let listener = fds.into_iter().next();
            Ok(Some(Ok(ReadyLauncher { channel, pid, trace, listener })))
        }
        Some((SupervisorReport::Failed(failure), _)) => Ok(Some(Err(failure))),
        None => {
            end_launcher(pid)?;
            Ok(None)
        }
        Some(_) => Err(io::Error::other("the launcher sent an unexpected report")),
    }
}

/// Ends a launcher that will not become the command.
fn end_launcher(pid: Pid) -> io::Result<()> {
    // It may have ended by itself; it is not reaped yet, so that the number is still its own.
    kill_process_group(pid, Signal::KILL).ok();
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED))?;
    Ok(())
}

/// Starts this program again, in a process group of its own.
#[expect(clippy::disallowed_methods, reason = "the supervisor starts the launcher: itself")]
fn spawn_launcher() -> io::Result<(Channel, Pid)> {
    let (ours, theirs) = Channel::pair()?;
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| OsString::from("turnstone"));
    let child = Command::new("/proc/self/exe")
        .arg0(name)
        .args(args)
        .process_group(0)
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
    Ok((ours, pid))
}
