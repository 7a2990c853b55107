//! The supervisor: a session of its own, one command, and the end of all of it when its owner goes.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, ioctl_tiocsctty, kill_process_group, setsid, waitid,
};
use rustix::stdio::dup2_stdin;
use rustix::termios::tcsetpgrp;
use turnstone_trace::{TraceHolders, fork_holders};

use crate::channel::Channel;
use crate::command_spec::OrphanPolicy;
use crate::deadline::Deadline;
use crate::exit::CommandExit;
use crate::launcher::run_launcher;
use crate::launcher_start::{PreparedLauncher, prepare_launcher};
use crate::proc_stat::ProcessStat;
use crate::process_group::{ProcessGroupId, SignalTarget};
use crate::protocol::{
    StartFailure, StartStep, SupervisionJob, SupervisorReport, SupervisorRequest,
};
use crate::signal::{SignalGuard, TERMINATION_SIGNALS};
use crate::terminal::OuterTerminal;
use crate::trace_outcome::TraceOutcome;

/// How often the dying are looked at.
const ENDING_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often processes that are left running are checked.
const ORPHAN_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long processes may take to disappear after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// What a supervisor ends with if it could not do its work.
const FAILED_EXIT_CODE: i32 = 125;

/// Runs this process as a supervisor or a launcher and returns its exit code.
///
/// For the hidden subcommand of the program that [`SupervisorProgram`](crate::SupervisorProgram) starts, before
/// it does anything else: no thread may run, and nothing may be printed. Standard input is the
/// socket to the owner; what to do is the first frame in it.
pub fn run_supervisor() -> i32 {
    match run_role() {
        Ok(()) => 0,
        Err(_) => FAILED_EXIT_CODE,
    }
}

fn run_role() -> io::Result<()> {
    let channel = Channel::from_fd(fcntl_dupfd_cloexec(std::io::stdin(), 3)?);
    dup2_stdin(fs_err::File::open("/dev/null")?)?;
    match channel.receive::<SupervisorRequest>()? {
        Some((SupervisorRequest::Supervise(job), streams)) => {
            // First, while the process is small: the holders are forked from it.
            let holders = job.trace_log.is_some().then(fork_holders);
            supervise_command(&channel, &job, streams, holders)
        }
        Some((SupervisorRequest::Launch { exec, is_traced }, streams)) => {
            run_launcher(&channel, &exec, is_traced, streams)
        }
        _ => Err(io::Error::other("neither a job nor a command came first")),
    }
}

/// Prepares the command, waits for the word, and stays until its session is empty.
fn supervise_command(
    channel: &Channel,
    job: &SupervisionJob,
    streams: Vec<OwnedFd>,
    holders: Option<io::Result<TraceHolders>>,
) -> io::Result<()> {
    let (launcher, trace, mut watch) = match prepare_command(channel, job, streams, holders) {
        Ok(Some(prepared)) => prepared,
        Ok(None) => return Ok(()),
        Err(error) => {
            return channel.send(
                &SupervisorReport::Failed(StartFailure::new(StartStep::Prepare, &error)),
                &[],
            );
        }
    };
    watch.report(&SupervisorReport::Prepared { group: watch.group.clone(), trace });
    watch.start(&launcher)?;
    watch.run()
}

/// Makes the session and the process that becomes the command; `None` if that failed by itself.
fn prepare_command(
    channel: &Channel,
    job: &SupervisionJob,
    mut streams: Vec<OwnedFd>,
    holders: Option<io::Result<TraceHolders>>,
) -> io::Result<Option<(Channel, TraceOutcome, SupervisedCommand)>> {
    let session = setsid()?.as_raw_nonzero().get();
    let signals: Vec<i32> =
        TERMINATION_SIGNALS.into_iter().chain([signal_hook::consts::SIGCHLD]).collect();
    let guard = SignalGuard::new(&signals)?;
    let outer = if job.outer { streams.pop().map(OuterTerminal::new).transpose()? } else { None };
    let terminal = streams.first().filter(|_| job.terminal);
    if let Some(terminal) = terminal {
        ioctl_tiocsctty(terminal)?;
    }
    let PreparedLauncher { launcher, leader, trace, holders } =
        match prepare_launcher(job, &streams, holders)? {
            Ok(prepared) => prepared,
            Err(failure) => {
                channel.send(&SupervisorReport::Failed(failure), &[])?;
                return Ok(None);
            }
        };
    if let Some(terminal) = terminal {
        // Before the command runs: it never finds itself in the background.
        tcsetpgrp(terminal, leader)?;
    }
    let group = ProcessGroupId::read(leader.as_raw_nonzero().get(), session)?;
    let watch = SupervisedCommand {
        channel: Some(channel.try_clone()?),
        signals: guard,
        leader,
        group,
        outer,
        grace: Duration::from_millis(job.grace_ms),
        leftover: job.leftover,
        holders,
        exit: None,
        ending: None,
        ended_orphans: 0,
    };
    Ok(Some((launcher, trace, watch)))
}

/// The end of a group, under way.
struct GroupShutdown {
    /// When SIGKILL takes over.
    kill_at: Deadline,
    /// When it is given up.
    give_up_at: Deadline,
}

/// A command being watched.
struct SupervisedCommand {
    /// Nothing once the owner is gone.
    channel: Option<Channel>,
    signals: SignalGuard,
    /// The command. Its number stays ours until it is waited for, which is the last thing done.
    leader: Pid,
    group: ProcessGroupId,
    outer: Option<OuterTerminal>,
    grace: Duration,
    leftover: OrphanPolicy,
    /// The processes that answer for the command, if it is traced and they have not ended.
    holders: Option<TraceHolders>,
    exit: Option<CommandExit>,
    ending: Option<GroupShutdown>,
    /// Processes that outlived the command and were ended for that.
    ended_orphans: usize,
}

impl SupervisedCommand {
    /// Waits for the owner's word and passes it on; without it the command never runs.
    fn start(&mut self, launcher: &Channel) -> io::Result<()> {
        let channel = self.channel.as_ref();
        let word = channel.map(Channel::receive::<SupervisorRequest>).transpose()?.flatten();
        if !matches!(word, Some((SupervisorRequest::Go, _))) {
            self.handle_owner_exit();
            kill_process_group(self.leader, Signal::KILL)?;
            return Ok(());
        }
        launcher.send(&SupervisorRequest::Go, &[])?;
        match launcher.receive::<SupervisorReport>()? {
            // The launcher's end closed itself: it is the command now.
            None => self.report(&SupervisorReport::Started),
            Some((report, _)) => self.report(&report),
        }
        Ok(())
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            self.poll_command()?;
            let others = self.list_other_processes()?;
            if self.exit.is_some() && self.is_done(&others) {
                let (left, ended) = (others.len(), self.ended_orphans);
                self.record_remaining();
                self.report(&SupervisorReport::Ended { left, ended });
                waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
                return Ok(());
            }
            if self.ending.as_ref().is_some_and(|ending| ending.give_up_at.is_over()) {
                let left = others.len();
                let ended = self.ended_orphans.saturating_sub(left);
                self.record_remaining();
                self.report(&SupervisorReport::Ended { left, ended });
                return Ok(());
            }
            self.kill_after_grace(&others);
            self.wait_for_event(&others)?;
        }
    }

    /// Whether nothing is left to do once the command itself has ended.
    fn is_done(&mut self, others: &[ProcessStat]) -> bool {
        if others.is_empty() {
            return true;
        }
        match self.leftover {
            OrphanPolicy::End => {
                if self.ending.is_none() {
                    self.ended_orphans = others.len();
                }
                self.end();
            }
            OrphanPolicy::Leave if self.ending.is_none() => return true,
            OrphanPolicy::Leave | OrphanPolicy::Wait => {}
        }
        false
    }

    /// Reports what happened to the command, and leaves its number taken.
    fn poll_command(&mut self) -> io::Result<()> {
        let leader = || WaitId::Pid(self.leader);
        if self.exit.is_some() {
            return Ok(());
        }
        let moved = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        match waitid(leader(), moved) {
            Ok(status) => {
                if let Some(signal) = status.and_then(|status| status.stopping_signal()) {
                    self.report(&SupervisorReport::Stopped(signal));
                }
            }
            // The dead do not stop any more.
            Err(Errno::CHILD) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(status) = waitid(leader(), ended)? else { return Ok(()) };
        let code = status.exit_status().map(CommandExit::Code);
        self.exit = code.or_else(|| status.terminating_signal().map(CommandExit::Signal));
        if let Some(exit) = self.exit {
            self.report(&SupervisorReport::Exited(exit));
        }
        Ok(())
    }

    /// Lists the processes of the session other than the command and this supervisor.
    ///
    /// While the command itself runs this is not needed, and `/proc` is not read.
    fn list_other_processes(&self) -> io::Result<Vec<ProcessStat>> {
        if self.exit.is_none() && self.ending.is_none() {
            return Ok(Vec::new());
        }
        let own = getpid().as_raw_nonzero().get();
        let leader = self.group.pgid;
        let all = ProcessStat::list()?.into_iter().filter(ProcessStat::is_alive);
        let ours = |one: &ProcessStat| one.session == own || one.pgrp == leader;
        Ok(all.filter(|one| ours(one) && one.pid != own && one.pid != leader).collect())
    }

    /// Begins to end the group, once.
    fn end(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let kill_at = Deadline::after(self.grace);
        let give_up_at = Deadline::after(self.grace.saturating_add(KILL_TIMEOUT));
        self.ending = Some(GroupShutdown { kill_at, give_up_at });
        let others = self.list_other_processes().unwrap_or_default();
        // A stopped process obeys once it is woken.
        self.signal(Signal::TERM, &others);
        self.signal(Signal::CONT, &others);
    }

    /// Kills again and again when the grace period is over.
    fn kill_after_grace(&self, others: &[ProcessStat]) {
        if self.ending.as_ref().is_some_and(|ending| ending.kill_at.is_over()) {
            self.signal(Signal::KILL, others);
        }
    }

    /// Signals the whole group at once, and the rest of the session one by one.
    fn signal(&self, signal: Signal, others: &[ProcessStat]) {
        kill_process_group(self.leader, signal).ok();
        for other in others.iter().filter(|one| one.pgrp != self.group.pgid) {
            let Ok(Some(target)) = SignalTarget::open(other.pid) else { continue };
            let known = ProcessStat::find(other.pid).ok().flatten();
            if known.is_some_and(|now| now.start_time == other.start_time) {
                target.signal(signal);
            }
        }
    }

    fn wait_for_event(&mut self, others: &[ProcessStat]) -> io::Result<()> {
        let tick = match (&self.ending, others.is_empty()) {
            (Some(_), _) => Deadline::after(ENDING_POLL_INTERVAL),
            (None, false) => Deadline::after(ORPHAN_POLL_INTERVAL),
            (None, true) => Deadline::NEVER,
        };
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.channel.iter().map(|channel| PollFd::new(channel, PollFlags::IN)));
        let holders = self.holders.iter().flat_map(TraceHolders::sockets);
        fds.extend(holders.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        match poll(&mut fds, tick.timespec().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let has_message =
            self.channel.is_some() && fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        let first_holder = 1 + usize::from(self.channel.is_some());
        let holder_died = fds.iter().skip(first_holder).any(|fd| !fd.revents().is_empty());
        drop(fds);
        if holder_died {
            self.check_holders();
        }
        if self.signals.take_pending().iter().any(|signal| TERMINATION_SIGNALS.contains(signal)) {
            self.end();
        }
        if has_message {
            self.handle_request();
        }
        Ok(())
    }

    /// Ends a command whose calls nothing answers any more: it could not write again.
    fn check_holders(&mut self) {
        let Some(holders) = &mut self.holders else { return };
        if holders.are_lost() {
            holders.record_loss();
            self.holders = None;
            self.report(&SupervisorReport::TraceLost);
            self.end();
        } else if holders.sockets().next().is_none() {
            self.holders = None;
        }
    }

    /// Has the log say what of the command goes on without a supervisor.
    fn record_remaining(&mut self) {
        if let Some(mut holders) = self.holders.take() {
            holders.list_remaining();
        }
    }

    /// Follows one order. An owner that is gone or talks nonsense ends the group.
    fn handle_request(&mut self) {
        let order = self.channel.as_ref().map(Channel::receive::<SupervisorRequest>);
        match order {
            Some(Ok(Some((SupervisorRequest::Signal(number), _)))) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    kill_process_group(self.leader, signal).ok();
                }
            }
            Some(Ok(Some((SupervisorRequest::Raw(raw), _)))) => {
                if let Some(outer) = &mut self.outer {
                    outer.set_raw(raw);
                }
            }
            Some(Ok(Some((SupervisorRequest::End, _)))) => self.end(),
            Some(_) => self.handle_owner_exit(),
            None => {}
        }
    }

    fn handle_owner_exit(&mut self) {
        self.channel = None;
        if let Some(outer) = &self.outer {
            outer.restore();
        }
        self.end();
    }

    /// Reports to the owner; if that fails, the next look at the channel finds out why.
    fn report(&self, report: &SupervisorReport) {
        if let Some(channel) = &self.channel {
            channel.send(report, &[]).ok();
        }
    }
}
