//! The identity of a group of processes, which outlives the owner and is never taken for another's.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::deadline::Deadline;
use crate::error::ProcessGroupError;
use crate::proc_stat::{self, ProcessStat};

/// How long processes may take to disappear after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the list is read again while no end is reported.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// A command and everything it started that stayed in its session (R32).
///
/// Numbers of processes are used again; with their start times and the boot they are not. While a
/// process of a group or session lives, the kernel does not reuse its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessGroupId {
    /// The process group, which is also the process id of the command.
    pub pgid: i32,
    /// When the command was started, in clock ticks after boot.
    pub start_time: u64,
    /// The session, which is also the process id of the supervisor.
    pub session: i32,
    /// When the supervisor was started, in clock ticks after boot.
    pub session_start_time: u64,
    /// The run of the machine both numbers belong to.
    pub boot_id: String,
}

/// How a group ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupEndOutcome {
    /// None of its processes lived any more.
    Already,
    /// It obeyed SIGTERM within the grace period.
    Terminated,
    /// It had to be killed.
    Killed,
}

impl ProcessGroupId {
    /// Reads the identity of a command that is alive, as the session leader above it.
    pub(crate) fn read(command: i32, session: i32) -> io::Result<Self> {
        let gone = || io::Error::from(Errno::SRCH);
        Ok(Self {
            pgid: command,
            start_time: ProcessStat::find(command)?.ok_or_else(gone)?.start_time,
            session,
            session_start_time: ProcessStat::find(session)?.ok_or_else(gone)?.start_time,
            boot_id: proc_stat::boot_id()?,
        })
    }

    /// Whether a process of the group still lives: the supervisor, the command or what it started.
    ///
    /// # Errors
    ///
    /// [`ProcessGroupError::Unknown`] if the processes cannot be listed; never read that as "no".
    pub fn is_alive(&self) -> Result<bool, ProcessGroupError> {
        Ok(!self.members().map_err(ProcessGroupError::Unknown)?.is_empty())
    }

    /// Waits until no process of the group lives, at most until the deadline; true if none does.
    ///
    /// # Errors
    ///
    /// [`ProcessGroupError::Unknown`] if the processes cannot be listed.
    pub fn wait(&self, patience: Duration) -> Result<bool, ProcessGroupError> {
        let left =
            self.wait_until(Deadline::after(patience)).map_err(ProcessGroupError::Unknown)?;
        Ok(left.is_empty())
    }

    /// Ends the group: SIGTERM, and SIGKILL for the processes left after the grace period.
    ///
    /// A supervisor that lost its owner does this by itself: [`wait`](Self::wait) for it first, and
    /// end what is left then. Stopped processes are woken so that they can obey. Each process is signalled through a
    /// descriptor whose identity was checked, so that a number used again is never hit.
    ///
    /// # Errors
    ///
    /// [`ProcessGroupError::StillAlive`] if processes outlive SIGKILL, [`ProcessGroupError::Unknown`] if they
    /// cannot be listed.
    pub fn end(&self, grace: Duration) -> Result<GroupEndOutcome, ProcessGroupError> {
        let unknown = ProcessGroupError::Unknown;
        if self.members().map_err(unknown)?.is_empty() {
            return Ok(GroupEndOutcome::Already);
        }
        self.signal(&[Signal::TERM, Signal::CONT]).map_err(unknown)?;
        if self.wait_until(Deadline::after(grace)).map_err(unknown)?.is_empty() {
            return Ok(GroupEndOutcome::Terminated);
        }
        let patience = Deadline::after(KILL_TIMEOUT);
        loop {
            // Again each time: a process that was forked while the list was read is in the next one.
            self.signal(&[Signal::KILL]).map_err(unknown)?;
            let left = self.wait_until(Deadline::after(POLL_INTERVAL)).map_err(unknown)?;
            if left.is_empty() {
                return Ok(GroupEndOutcome::Killed);
            }
            if patience.is_over() {
                let left = left.iter().map(|one| one.pid).collect();
                return Err(ProcessGroupError::StillAlive { pgid: self.pgid, left });
            }
        }
    }

    fn wait_until(&self, deadline: Deadline) -> io::Result<Vec<ProcessStat>> {
        loop {
            let members = self.members()?;
            if members.is_empty() || deadline.is_over() {
                return Ok(members);
            }
            let tick = deadline.remaining().unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL);
            wait_for_exit(members.first(), Deadline::after(tick))?;
        }
    }

    fn signal(&self, signals: &[Signal]) -> io::Result<()> {
        for member in self.members()? {
            let Some(target) = SignalTarget::open(member.pid)? else { continue };
            // Read again after the descriptor was opened: it refers to this process, or to one that has ended.
            let known =
                ProcessStat::find(member.pid)?.is_some_and(|now| is_same_process(&now, &member));
            if known {
                for signal in signals {
                    target.signal(*signal);
                }
            }
        }
        Ok(())
    }

    /// Lists the living processes that are provably of this group.
    pub(crate) fn members(&self) -> io::Result<Vec<ProcessStat>> {
        if proc_stat::boot_id()? != self.boot_id {
            return Ok(Vec::new());
        }
        Ok(self.members_in(&ProcessStat::list()?))
    }

    fn members_in(&self, all: &[ProcessStat]) -> Vec<ProcessStat> {
        let leader = PidHolder::find(all, self.pgid, self.start_time);
        let session = PidHolder::find(all, self.session, self.session_start_time);
        let ours = |one: &&ProcessStat| {
            let in_group = one.pgrp == self.pgid;
            let in_session = one.session == self.session;
            // A living holder proves that its number was never given away.
            let proven = (in_group && leader == PidHolder::Ours)
                || (in_session && session == PidHolder::Ours);
            // With both gone, the two numbers together identify the group, if no other process has one.
            let left_behind = in_group
                && in_session
                && leader == PidHolder::Unused
                && session == PidHolder::Unused
                && one.start_time >= self.start_time;
            one.is_alive() && (proven || left_behind)
        };
        all.iter().filter(ours).copied().collect()
    }
}

/// Which process has a number now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PidHolder {
    Ours,
    Other,
    Unused,
}

impl PidHolder {
    fn find(all: &[ProcessStat], pid: i32, start_time: u64) -> Self {
        match all.iter().find(|one| one.pid == pid) {
            Some(one) if one.start_time == start_time => Self::Ours,
            Some(_) => Self::Other,
            None => Self::Unused,
        }
    }
}

/// Whether two reads of one process id saw the same process in the same group.
fn is_same_process(now: &ProcessStat, before: &ProcessStat) -> bool {
    now.start_time == before.start_time && now.session == before.session
}

/// A process that can be signalled without a chance to hit its successor.
pub(crate) struct SignalTarget {
    pid: Pid,
    /// Nothing where the kernel has no descriptors for processes (before Linux 5.3).
    handle: Option<OwnedFd>,
}

impl SignalTarget {
    /// Opens a handle to a process, or returns `None` if there is no such process.
    pub(crate) fn open(pid: i32) -> io::Result<Option<Self>> {
        let Some(pid) = Pid::from_raw(pid) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Ok(Some(Self { pid, handle: Some(handle) })),
            Err(Errno::SRCH) => Ok(None),
            Err(Errno::NOSYS | Errno::PERM) => Ok(Some(Self { pid, handle: None })),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends a signal. A process that cannot be signalled is found alive afterwards.
    pub(crate) fn signal(&self, signal: Signal) {
        let sent = match &self.handle {
            Some(handle) => pidfd_send_signal(handle, signal),
            None => kill_process(self.pid, signal),
        };
        sent.ok();
    }
}

/// Waits until a process ends or the deadline passes.
fn wait_for_exit(process: Option<&ProcessStat>, deadline: Deadline) -> io::Result<()> {
    let target = process.map(|one| SignalTarget::open(one.pid)).transpose()?.flatten();
    let handle = target.and_then(|target| target.handle);
    let mut fds: Vec<PollFd<'_>> =
        handle.iter().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
    match poll(&mut fds, deadline.timespec().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> ProcessGroupId {
        ProcessGroupId {
            pgid: 20,
            start_time: 200,
            session: 10,
            session_start_time: 100,
            boot_id: proc_stat::boot_id().unwrap(),
        }
    }

    fn process(pid: i32, pgrp: i32, session: i32, start_time: u64) -> ProcessStat {
        ProcessStat { pid, state: b'S', parent: 1, pgrp, session, usage: [0; 4], start_time }
    }

    fn pids_of(all: &[ProcessStat]) -> Vec<i32> {
        group().members_in(all).iter().map(|one| one.pid).collect()
    }

    /// Proves R32.
    #[test]
    fn living_supervisor_session_is_the_group() {
        let all = [
            process(1, 1, 1, 1),
            process(10, 10, 10, 100),
            process(20, 20, 10, 200),
            process(21, 20, 10, 210),
            // A job of an interactive shell has a group of its own.
            process(22, 22, 10, 220),
            process(30, 30, 30, 230),
        ];
        assert_eq!(pids_of(&all), [10, 20, 21, 22]);
    }

    /// Proves R32.
    #[test]
    fn orphans_match_by_group_and_session() {
        assert_eq!(pids_of(&[process(21, 20, 10, 210), process(22, 22, 10, 220)]), [21]);
        assert_eq!(pids_of(&[process(20, 20, 10, 200), process(21, 20, 10, 210)]), [20, 21]);
    }

    /// Proves R32.
    #[test]
    fn reused_pids_are_not_the_group() {
        // The command's number, the supervisor's number, and both.
        assert_eq!(pids_of(&[process(20, 20, 20, 900), process(25, 20, 20, 910)]), [0_i32; 0]);
        assert_eq!(pids_of(&[process(10, 10, 10, 900), process(25, 20, 10, 910)]), [0_i32; 0]);
        assert_eq!(pids_of(&[process(10, 10, 10, 900), process(20, 20, 10, 901)]), [0_i32; 0]);
        // Older than the group itself.
        assert_eq!(pids_of(&[process(21, 20, 10, 150)]), [0_i32; 0]);
    }

    /// Proves R32.
    #[test]
    fn zombie_is_dead_but_reserves_its_pid() {
        let zombie = ProcessStat { state: b'Z', ..process(20, 20, 10, 200) };
        assert_eq!(pids_of(&[zombie]), [0_i32; 0]);
        assert_eq!(pids_of(&[zombie, process(21, 20, 10, 210)]), [21]);
    }

    /// Proves R32.
    #[test]
    fn group_of_another_boot_is_dead() {
        let me = i32::try_from(std::process::id()).unwrap();
        let own = ProcessGroupId::read(me, me).unwrap();
        assert!(own.is_alive().unwrap());
        let before = ProcessGroupId { boot_id: "another".to_owned(), ..own };
        assert!(!before.is_alive().unwrap());
        assert_eq!(before.end(Duration::ZERO).unwrap(), GroupEndOutcome::Already);
    }
}
