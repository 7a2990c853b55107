//! The supervisor: a session of its own, one command, and the end of all of it when its owner goes.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, ioctl_tiocsctty, kill_process_group, setsid, waitid,
};
use rustix::stdio::dup2_stdin;
use rustix::termios::tcsetpgrp;

use crate::channel::Channel;
use crate::deadline::Deadline;
use crate::exit::Exit;
use crate::group::{GroupId, Target};
use crate::launch::launch;
use crate::program::Leftover;
use crate::signal::{ENDING, Heard};
use crate::stat::Stat;
use crate::terminal::Outer;
use crate::wire::{Failure, Job, Order, Report, Step};

/// How often the dying are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How often those are looked at that nobody ends.
const SLOW_TICK: Duration = Duration::from_millis(250);
/// How long processes may take to disappear after SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// What a supervisor ends with if it could not do its work.
const FAILED: i32 = 125;

/// Runs this process as a supervisor or a launcher and returns its exit code.
///
/// For the hidden subcommand of the program that [`Supervisor`](crate::Supervisor) starts, before
/// it does anything else: no thread may run, and nothing may be printed. Standard input is the
/// socket to the owner; what to do is the first frame in it.
pub fn supervise() -> i32 {
    match follow() {
        Ok(()) => 0,
        Err(_) => FAILED,
    }
}

fn follow() -> io::Result<()> {
    let channel = Channel::from_fd(fcntl_dupfd_cloexec(std::io::stdin(), 3)?);
    dup2_stdin(fs_err::File::open("/dev/null")?)?;
    match channel.receive::<Order>()? {
        Some((Order::Supervise(job), streams)) => oversee(&channel, &job, streams),
        Some((Order::Launch(exec), streams)) => launch(&channel, &exec, streams),
        _ => Err(io::Error::other("neither a job nor a command came first")),
    }
}

/// Prepares the command, waits for the word, and stays until its session is empty.
fn oversee(channel: &Channel, job: &Job, streams: Vec<OwnedFd>) -> io::Result<()> {
    let (launcher, mut watch) = match prepare(channel, job, streams) {
        Ok(Some(prepared)) => prepared,
        Ok(None) => return Ok(()),
        Err(error) => {
            return channel.send(&Report::Failed(Failure::new(Step::Prepare, &error)), &[]);
        }
    };
    watch.tell(&Report::Prepared(watch.group.clone()));
    watch.start(&launcher)?;
    watch.run()
}

/// Makes the session and the process that becomes the command; nothing if that failed by itself.
fn prepare(
    channel: &Channel,
    job: &Job,
    mut streams: Vec<OwnedFd>,
) -> io::Result<Option<(Channel, Watch)>> {
    let session = setsid()?.as_raw_nonzero().get();
    let signals: Vec<i32> = ENDING.into_iter().chain([signal_hook::consts::SIGCHLD]).collect();
    let heard = Heard::new(&signals)?;
    let outer = if job.outer { streams.pop().map(Outer::new).transpose()? } else { None };
    let terminal = streams.first().filter(|_| job.terminal);
    if let Some(terminal) = terminal {
        ioctl_tiocsctty(terminal)?;
    }
    let (launcher, leader) = start_launcher()?;
    let fds: Vec<_> = streams.iter().map(AsFd::as_fd).collect();
    launcher.send(&Order::Launch(job.exec.clone()), &fds)?;
    match launcher.receive::<Report>()? {
        Some((Report::Ready, _)) => {}
        Some((report @ Report::Failed(_), _)) => {
            channel.send(&report, &[])?;
            return Ok(None);
        }
        _ => return Err(io::Error::other("the launcher ended too early")),
    }
    if let Some(terminal) = terminal {
        // Before the command runs: it never finds itself in the background.
        tcsetpgrp(terminal, leader)?;
    }
    let group = GroupId::of(leader.as_raw_nonzero().get(), session)?;
    let watch = Watch {
        channel: Some(channel.try_clone()?),
        heard,
        leader,
        group,
        outer,
        grace: Duration::from_millis(job.grace_ms),
        leftover: job.leftover,
        exit: None,
        ending: None,
    };
    Ok(Some((launcher, watch)))
}

/// Starts this program again, in a process group of its own.
#[expect(clippy::disallowed_methods, reason = "the supervisor starts the launcher: itself")]
fn start_launcher() -> io::Result<(Channel, Pid)> {
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

/// The end of a group, under way.
struct Ending {
    /// When SIGKILL takes over.
    kill_at: Deadline,
    /// When nobody believes in it any more.
    give_up_at: Deadline,
}

/// A command being watched.
struct Watch {
    /// Nothing once the owner is gone.
    channel: Option<Channel>,
    heard: Heard,
    /// The command. Its number stays ours until it is waited for, which is the last thing done.
    leader: Pid,
    group: GroupId,
    outer: Option<Outer>,
    grace: Duration,
    leftover: Leftover,
    exit: Option<Exit>,
    ending: Option<Ending>,
}

impl Watch {
    /// Waits for the owner's word and passes it on; without it the command never runs.
    fn start(&mut self, launcher: &Channel) -> io::Result<()> {
        let channel = self.channel.as_ref();
        let word = channel.map(Channel::receive::<Order>).transpose()?.flatten();
        if !matches!(word, Some((Order::Go, _))) {
            self.owner_is_gone();
            kill_process_group(self.leader, Signal::KILL)?;
            return Ok(());
        }
        launcher.send(&Order::Go, &[])?;
        match launcher.receive::<Report>()? {
            // The launcher's end closed itself: it is the command now.
            None => self.tell(&Report::Started),
            Some((report, _)) => self.tell(&report),
        }
        Ok(())
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            self.look_at_the_command()?;
            let others = self.others()?;
            if self.exit.is_some() && self.is_done(&others) {
                let left = others.len();
                self.tell(&Report::Ended { left });
                waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
                return Ok(());
            }
            if self.ending.as_ref().is_some_and(|ending| ending.give_up_at.is_over()) {
                self.tell(&Report::Ended { left: others.len() });
                return Ok(());
            }
            self.push(&others);
            self.wait_for_news(&others)?;
        }
    }

    /// Whether nothing is left to do once the command itself has ended.
    fn is_done(&mut self, others: &[Stat]) -> bool {
        if others.is_empty() {
            return true;
        }
        match self.leftover {
            Leftover::End => self.end(),
            Leftover::Leave if self.ending.is_none() => return true,
            Leftover::Leave | Leftover::Wait => {}
        }
        false
    }

    /// Reports what happened to the command, and leaves its number taken.
    fn look_at_the_command(&mut self) -> io::Result<()> {
        let leader = || WaitId::Pid(self.leader);
        if self.exit.is_some() {
            return Ok(());
        }
        let moved = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        match waitid(leader(), moved) {
            Ok(status) => {
                if let Some(signal) = status.and_then(|status| status.stopping_signal()) {
                    self.tell(&Report::Stopped(signal));
                }
            }
            // The dead do not stop any more.
            Err(Errno::CHILD) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(status) = waitid(leader(), ended)? else { return Ok(()) };
        let code = status.exit_status().map(Exit::Code);
        self.exit = code.or_else(|| status.terminating_signal().map(Exit::Signal));
        if let Some(exit) = self.exit {
            self.tell(&Report::Exited(exit));
        }
        Ok(())
    }

    /// Lists who lives in the session beside the command and this supervisor.
    ///
    /// While the command runs by itself nobody needs to know, and `/proc` is left alone.
    fn others(&self) -> io::Result<Vec<Stat>> {
        if self.exit.is_none() && self.ending.is_none() {
            return Ok(Vec::new());
        }
        let own = getpid().as_raw_nonzero().get();
        let leader = self.group.pgid;
        let all = Stat::list()?.into_iter().filter(Stat::is_alive);
        let ours = |one: &Stat| one.session == own || one.pgrp == leader;
        Ok(all.filter(|one| ours(one) && one.pid != own && one.pid != leader).collect())
    }

    /// Begins to end the group, once.
    fn end(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let kill_at = Deadline::after(self.grace);
        let give_up_at = Deadline::after(self.grace.saturating_add(KILL_PATIENCE));
        self.ending = Some(Ending { kill_at, give_up_at });
        let others = self.others().unwrap_or_default();
        // A stopped process obeys once it is woken.
        self.signal(Signal::TERM, &others);
        self.signal(Signal::CONT, &others);
    }

    /// Kills again and again when the grace period is over.
    fn push(&self, others: &[Stat]) {
        if self.ending.as_ref().is_some_and(|ending| ending.kill_at.is_over()) {
            self.signal(Signal::KILL, others);
        }
    }

    /// Signals the whole group at once, and the rest of the session one by one.
    fn signal(&self, signal: Signal, others: &[Stat]) {
        kill_process_group(self.leader, signal).ok();
        for other in others.iter().filter(|one| one.pgrp != self.group.pgid) {
            let Ok(Some(target)) = Target::open(other.pid) else { continue };
            let known = Stat::find(other.pid).ok().flatten();
            if known.is_some_and(|now| now.start_time == other.start_time) {
                target.signal(signal);
            }
        }
    }

    fn wait_for_news(&mut self, others: &[Stat]) -> io::Result<()> {
        let tick = match (&self.ending, others.is_empty()) {
            (Some(_), _) => Deadline::after(TICK),
            (None, false) => Deadline::after(SLOW_TICK),
            (None, true) => Deadline::NEVER,
        };
        let mut fds = vec![PollFd::new(&self.heard, PollFlags::IN)];
        fds.extend(self.channel.iter().map(|channel| PollFd::new(channel, PollFlags::IN)));
        match poll(&mut fds, tick.timespec().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let spoken = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        if self.heard.take().iter().any(|signal| ENDING.contains(signal)) {
            self.end();
        }
        if spoken {
            self.listen();
        }
        Ok(())
    }

    /// Follows one order. An owner that is gone or talks nonsense ends the group.
    fn listen(&mut self) {
        let order = self.channel.as_ref().map(Channel::receive::<Order>);
        match order {
            Some(Ok(Some((Order::Signal(number), _)))) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    kill_process_group(self.leader, signal).ok();
                }
            }
            Some(Ok(Some((Order::Raw(raw), _)))) => {
                if let Some(outer) = &mut self.outer {
                    outer.set_raw(raw);
                }
            }
            Some(Ok(Some((Order::End, _)))) => self.end(),
            Some(_) => self.owner_is_gone(),
            None => {}
        }
    }

    fn owner_is_gone(&mut self) {
        self.channel = None;
        if let Some(outer) = &self.outer {
            outer.rescue();
        }
        self.end();
    }

    /// Reports to the owner; if that fails, the next look at the channel finds out why.
    fn tell(&self, report: &Report) {
        if let Some(channel) = &self.channel {
            channel.send(report, &[]).ok();
        }
    }
}
