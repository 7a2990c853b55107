//! The life of a holder: it answers as the primary, or waits as the standby until it has to.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, set_dumpable_behavior, setsid,
};
use rustix::time::{ClockId, Itimerspec, TimerfdTimerFlags, clock_gettime, timerfd_settime};

use crate::call::Notification;
use crate::holder::holder_message::{HolderReply, HolderRequest, StartMessage};
use crate::holder::recorder::CallRecorder;
use crate::holder::trace_writer::TraceWriter;
use crate::holder::tree_survey::list_tree;
use crate::holder::{caller_memory, holder_message};
use crate::kernel::forked_role::{
    ForkSide, close_all_but, end_process, fork_single_threaded, ignore_signals,
};
use crate::kernel::listener::Listener;
use crate::kernel::shared_state::SharedState;
use crate::log::{LogRecord, TraceGap, TraceGapReason};
use crate::resolve::PathResolver;

/// How often a standby that could not be started is tried again.
const RETRY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How many standbys are started in a second: a cause that ends each at once must not take the processor.
const MAX_REPLACEMENTS: u32 = 8;

/// How often the standby looks whether a call is still the same: recording one takes far less on any disk.
const RECORDING_TIME: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };
/// How often the recording of one call is begun, by this holder and those after it.
const MAX_ATTEMPTS: u64 = 2;

/// Whether a holder answers or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderRole {
    Primary,
    Standby,
}

/// A holder before it has the listener.
pub(crate) struct IdleHolder {
    pub(crate) role: HolderRole,
    /// The supervisor's socket.
    pub(crate) control: UnixStream,
    /// The other holder's socket: its end is the end of that holder.
    pub(crate) peer: UnixStream,
    /// The other holder of a standby, to be ended if it hangs.
    pub(crate) primary: Option<OwnedFd>,
    /// Runs while calls come in; shared by all holders.
    pub(crate) timer: OwnedFd,
    /// The number of the supervisor's socket.
    pub(crate) number: u64,
    pub(crate) state: &'static SharedState,
}

/// A holder that has the listener.
struct HolderProcess {
    role: HolderRole,
    control: Option<UnixStream>,
    peer: Option<UnixStream>,
    primary: Option<OwnedFd>,
    timer: OwnedFd,
    /// The call that was being answered when the standby looked last.
    watched_call: u64,
    number: u64,
    state: &'static SharedState,
    listener: Listener,
    recorder: CallRecorder,
    supervisor: i32,
    standby: Option<i32>,
    /// The second in which standbys were last started, and how many were.
    replacements: (i64, u32),
}

impl IdleHolder {
    /// Runs this process as a holder until the tree has ended.
    pub(crate) fn run(self) -> ! {
        // A defect ends this process as a kill would, and the other holder takes over.
        let result = catch_unwind(AssertUnwindSafe(|| self.start()));
        match result {
            Ok(Ok(Some(holder))) => holder.run(),
            Ok(Ok(None)) => end_process(0),
            Ok(Err(_)) | Err(_) => end_process(1),
        }
    }

    /// Leaves everything of the supervisor, and waits for the listener; `None` if it never comes.
    fn start(self) -> io::Result<Option<HolderProcess>> {
        shed_supervisor(&self)?;
        let Some((start, listener, log)) = holder_message::receive_start(&self.control)? else {
            return Ok(None);
        };
        let recorder =
            CallRecorder::new(PathResolver::new()?, TraceWriter::new(log, self.state), self.state);
        let listener = Listener::from_fd(listener);
        listener.wake_on_same_processor();
        let reply = match can_read_memory(start) {
            true => HolderReply::Ready,
            false => HolderReply::MemoryNotReadable,
        };
        (&self.control).write_all(&[reply.code()])?;
        Ok(Some(HolderProcess {
            role: self.role,
            control: Some(self.control),
            peer: Some(self.peer),
            primary: self.primary,
            timer: self.timer,
            watched_call: 0,
            number: self.number,
            state: self.state,
            listener,
            recorder,
            supervisor: start.supervisor,
            standby: None,
            replacements: (0, 0),
        }))
    }
}

/// Gives up what the process that this was forked from had: descriptors, session, signals, directory.
fn shed_supervisor(holder: &IdleHolder) -> io::Result<()> {
    ignore_signals();
    setsid()?;
    let null = fs_err::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    let mut kept = vec![holder.control.as_fd(), holder.peer.as_fd(), holder.timer.as_fd()];
    kept.extend(holder.primary.iter().map(AsFd::as_fd));
    close_all_but(&kept)?;
    std::mem::forget(null);
    std::env::set_current_dir("/")?;
    set_child_subreaper(Some(rustix::process::getpid()))?;
    // The tree runs as the same user: it shall not read or trace what decides about it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_name(c"turnstone-trace")?;
    Ok(())
}

fn can_read_memory(start: StartMessage) -> bool {
    let mut word = [0; 8];
    let read = caller_memory::read_memory(start.launcher, start.address, &mut word);
    read.is_ok() && word == holder_message::PROBE
}

impl HolderProcess {
    fn run(mut self) -> ! {
        loop {
            let result = catch_unwind(AssertUnwindSafe(|| match self.role {
                HolderRole::Primary => self.serve(),
                HolderRole::Standby => self.wait_for_takeover(),
            }));
            if !matches!(result, Ok(Ok(()))) {
                end_process(1);
            }
        }
    }

    /// Answers until this process has another role.
    fn serve(&mut self) -> io::Result<()> {
        self.state.primary.store(self.number, Ordering::SeqCst);
        while self.role == HolderRole::Primary {
            let ready = self.wait()?;
            if ready.peer_died {
                self.replace_standby();
                if self.role == HolderRole::Standby {
                    continue;
                }
            }
            // Even if no process can be started: the tree waits.
            if ready.call {
                self.answer_next()?;
            } else if ready.tree_ended {
                self.finish();
            }
            if ready.request {
                self.handle_request();
            }
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<ReadyEvents> {
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(self.peer.iter().map(|peer| PollFd::new(peer, PollFlags::IN)));
        fds.extend(self.control.iter().map(|control| PollFd::new(control, PollFlags::IN)));
        let timeout = if self.peer.is_none() { Some(RETRY) } else { None };
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut events = fds.iter().map(PollFd::revents);
        let listener = events.next().unwrap_or(PollFlags::empty());
        let peer = self.peer.as_ref().and_then(|_| events.next());
        let request = self.control.as_ref().and_then(|_| events.next());
        Ok(ReadyEvents {
            call: listener.contains(PollFlags::IN),
            tree_ended: listener.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
            peer_died: peer.is_none_or(|events| !events.is_empty()),
            request: request.is_some_and(|events| !events.is_empty()),
        })
    }

    fn answer_next(&mut self) -> io::Result<()> {
        match self.listener.receive(self.state) {
            Ok(()) => self.answer(),
            // The caller is gone, or a signal came first.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {
                self.state.clear_notification();
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Records the received call and lets it go on, in this order.
    fn answer(&mut self) -> io::Result<()> {
        let notification = Notification::decode(&self.state.notification());
        if self.state.count_attempt(notification.id) > MAX_ATTEMPTS || !self.record(&notification) {
            self.recorder.record_failure();
        }
        match self.listener.continue_call(notification.id) {
            // The caller was killed.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.state.clear_notification();
        Ok(())
    }

    /// Records a call; false if a defect prevented that.
    ///
    /// It may hang: a file system that a process of the tree serves answers no question as long as
    /// that process waits for us. The standby takes over then, even if this process cannot end.
    fn record(&mut self, notification: &Notification) -> bool {
        if self.state.is_blind.load(Ordering::SeqCst) {
            return true;
        }
        // Once for many calls: the standby stops the timer when none comes any more.
        if !self.state.is_watched.swap(true, Ordering::SeqCst) {
            set_timer(&self.timer, RECORDING_TIME);
        }
        let recording = catch_unwind(AssertUnwindSafe(|| {
            self.recorder.record(notification, &self.listener);
        }));
        recording.is_ok()
    }

    fn handle_request(&mut self) {
        let Some(control) = &mut self.control else { return };
        let mut code = [0];
        let request = match control.read(&mut code) {
            Ok(1) => HolderRequest::from_code(code),
            _ => None,
        };
        match request {
            Some(HolderRequest::ListTree) => {
                self.write_survey();
                if let Some(control) = &mut self.control {
                    control.write_all(&[HolderReply::Listed.code()]).ok();
                }
            }
            // The supervisor is gone.
            None => self.control = None,
        }
    }

    fn write_survey(&mut self) {
        // What is touched again from here on is recorded again: it is no longer the command that does it.
        self.recorder.writer.forget_written();
        let ours: Vec<i32> = self.standby.into_iter().chain([self.supervisor]).collect();
        match list_tree(&ours) {
            Ok(processes) => processes.into_iter().for_each(|process| {
                self.recorder.writer.write_end(&LogRecord::Remaining(process));
            }),
            Err(_) => {
                let reason = TraceGapReason::UnresolvedPath;
                self.recorder.writer.write_gap(TraceGap { reason, path: None, count: 1 });
            }
        }
    }

    /// The last process of the tree has ended.
    fn finish(&self) -> ! {
        self.recorder.writer.write_end(&LogRecord::Ended);
        self.state.is_finished.store(true, Ordering::SeqCst);
        end_process(0)
    }

    /// Forks a new standby. If that fails it is tried again later.
    fn replace_standby(&mut self) {
        self.peer = None;
        if !self.may_start_standby() {
            return;
        }
        let Ok((ours, theirs)) = UnixStream::pair() else { return };
        match fork_single_threaded() {
            Ok(ForkSide::Parent(pid)) => {
                self.peer = Some(ours);
                self.standby = Some(pid.as_raw_nonzero().get());
            }
            Ok(ForkSide::Child) => {
                drop(ours);
                self.peer = Some(theirs);
                self.standby = None;
                self.primary = open_parent();
                self.role = HolderRole::Standby;
                setsid().ok();
            }
            Err(_) => {}
        }
    }

    fn may_start_standby(&mut self) -> bool {
        let second = clock_gettime(ClockId::Monotonic).tv_sec;
        let (last, count) = self.replacements;
        self.replacements = (second, if last == second { count.saturating_add(1) } else { 1 });
        self.replacements.1 <= MAX_REPLACEMENTS
    }

    /// Ends a primary that has recorded one call for too long; false if it has gone on.
    ///
    /// It may stay in the kernel for as long as it waits for the tree, but never runs again.
    fn end_hanging_primary(&mut self) -> bool {
        let mut expirations = [0; 8];
        if rustix::io::read(&self.timer, &mut expirations).is_err() {
            return false;
        }
        let call = self.state.current_call();
        if call == 0 {
            self.stop_watching();
        }
        if call == 0 || call != self.watched_call {
            self.watched_call = call;
            return false;
        }
        let Some(primary) = &self.primary else { return false };
        self.state.is_blind.store(true, Ordering::SeqCst);
        pidfd_send_signal(primary, Signal::KILL).ok();
        self.recorder.record_failure();
        true
    }

    /// Stops the timer, unless a call has come in meanwhile.
    fn stop_watching(&self) {
        set_timer(&self.timer, Timespec::default());
        self.state.is_watched.store(false, Ordering::SeqCst);
        if self.state.current_call() != 0 && !self.state.is_watched.swap(true, Ordering::SeqCst) {
            set_timer(&self.timer, RECORDING_TIME);
        }
    }

    /// Waits until the primary dies, lets the call go on that it was answering, and takes over.
    fn wait_for_takeover(&mut self) -> io::Result<()> {
        let Some(peer) = &self.peer else { return Err(io::Error::other("a standby has a peer")) };
        let mut fds = [PollFd::new(peer, PollFlags::IN), PollFd::new(&self.timer, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        let [peer, _] = fds.map(|fd| fd.revents());
        if self.state.is_finished.load(Ordering::SeqCst) {
            end_process(0);
        }
        if peer.is_empty() && !self.end_hanging_primary() {
            return Ok(());
        }
        // From here on the next standby looks. The primary may have died before it started the timer.
        self.watched_call = 0;
        self.state.is_watched.store(true, Ordering::SeqCst);
        set_timer(&self.timer, RECORDING_TIME);
        self.recorder.writer.resume();
        self.role = HolderRole::Primary;
        // First, as this process may die of the call as well.
        self.replace_standby();
        if self.role == HolderRole::Primary && self.state.notification() != [0; _] {
            self.answer()?;
        }
        Ok(())
    }
}

/// Starts a timer that goes on, or stops it.
fn set_timer(timer: &OwnedFd, value: Timespec) {
    let spec = Itimerspec { it_interval: value, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &spec).ok();
}

/// Opens the process that this one was forked from, unless it has ended already.
pub(crate) fn open_parent() -> Option<OwnedFd> {
    let parent = getppid()?;
    let opened = pidfd_open(parent, PidfdFlags::empty()).ok()?;
    (getppid() == Some(parent)).then_some(opened)
}

/// What a primary woke up for.
struct ReadyEvents {
    call: bool,
    tree_ended: bool,
    peer_died: bool,
    request: bool,
}
