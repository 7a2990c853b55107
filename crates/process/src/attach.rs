//! Attaching to a command until it has ended: output, input, signals, size, suspension.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, write};
use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP, SIGWINCH};

use crate::deadline::Deadline;
use crate::error::ProcessGroupError;
use crate::exit::CommandExit;
use crate::multiplexer::{OutputSinks, SinkErrors};
use crate::output_recorder::OutputRecorder;
use crate::proc_stat::ProcessStat;
use crate::protocol::SupervisorReport;
use crate::pty::Pty;
use crate::signal::{ForegroundSignals, SignalGuard};
use crate::supervisor_client::{CommandControl, CommandHandle, OwnerStreams, RunningCommand};
use crate::terminal::{RawMode, StdioTerminal};

/// Input that waits for a command which does not read; no more is taken in then.
const MAX_PENDING: usize = 64 << 10;
/// How long we may go on before a stop that we asked for takes effect.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// Who gets the output, and whose terminal and signals are passed on.
pub struct AttachOptions<'a> {
    /// Keeps the output.
    pub recorder: &'a mut OutputRecorder,
    /// Gets standard output, or what the terminal shows, while it comes.
    pub stdout: &'a mut (dyn Write + Send),
    /// Gets standard error while it comes.
    pub stderr: &'a mut (dyn Write + Send),
    /// The user's terminal: raw while the command runs; size changes are passed on.
    pub terminal: Option<&'a StdioTerminal>,
    /// The signals to this process, if they are the command's business: it is in the foreground.
    pub signals: Option<ForegroundSignals>,
}

/// The result of attaching to a command.
#[derive(Debug)]
pub struct AttachOutcome {
    /// How the command ended.
    pub exit: CommandExit,
    /// Processes of the command's session that were left running.
    pub left: usize,
    /// Processes of the command's session that outlived the command and were ended.
    pub ended: usize,
    /// The command was ended because the processes that recorded its writes had been killed: without
    /// them it could not write any more.
    pub is_trace_lost: bool,
    /// Why standard output was no longer passed on.
    pub stdout_error: Option<io::Error>,
    /// Why standard error was no longer passed on.
    pub stderr_error: Option<io::Error>,
}

/// Why it is not known how a command ended.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The supervisor was killed; the group has been ended.
    #[error("the supervisor died; its command was ended")]
    SupervisorDied,
    /// The supervisor was killed, and processes may be left.
    #[error("the supervisor died, and its command may still run")]
    MayStillRun(#[source] ProcessGroupError),
    /// Waiting itself failed; the group is being ended.
    #[error("cannot supervise the command")]
    Io(#[from] io::Error),
}

impl RunningCommand {
    /// Attaches to the command until it and the processes it left behind have ended or are detached.
    ///
    /// Reads no faster than the sinks write. A sink that is gone (a closed pipe) closes the
    /// command's pipe too, so that it ends as it would without us.
    ///
    /// # Errors
    ///
    /// See [`AttachError`]: the command's end is not known then. The terminal has been restored.
    pub fn attach(self, options: AttachOptions<'_>) -> Result<AttachOutcome, AttachError> {
        let Self { mut command, ends: OwnerStreams { pty, multiplexer: pump, stopper }, .. } = self;
        let AttachOptions { recorder, stdout, stderr, terminal, signals } = options;
        let sinks = OutputSinks { recorder, stdout, stderr };
        let (watched, pumped) = std::thread::scope(|scope| {
            let pumping = scope.spawn(move || pump.run(sinks));
            let mut foreground = ForegroundLoop::new(&command, pty.as_ref(), terminal, signals);
            let watched = foreground.run();
            if watched.is_err() {
                command.link.incoming.shut_down();
            }
            drop(stopper);
            foreground.release_signals();
            let pumped = pumping.join();
            // Only now: the last output of the command was still meant for a raw terminal.
            foreground.restore_terminal();
            (watched, pumped)
        });
        let broken = match pumped {
            Ok(broken) => broken?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        command.finish_attach(watched?, broken)
    }
}

impl CommandHandle {
    fn finish_attach(
        &mut self,
        last: LastReports,
        broken: SinkErrors,
    ) -> Result<AttachOutcome, AttachError> {
        let LastReports { exit, left, is_trace_lost } = last;
        let (Some(exit), Some((left, orphans))) = (exit, left) else {
            // The supervisor is gone: ending the command is our task now.
            let ended = self.group.end(self.grace).map_err(AttachError::MayStillRun);
            self.wait();
            let outcome = |exit| AttachOutcome {
                exit,
                left: 0,
                ended: 0,
                is_trace_lost,
                stdout_error: broken.stdout,
                stderr_error: broken.stderr,
            };
            ended?;
            return exit.map(outcome).ok_or(AttachError::SupervisorDied);
        };
        self.wait();
        let SinkErrors { stdout: stdout_error, stderr: stderr_error } = broken;
        Ok(AttachOutcome { exit, left, ended: orphans, is_trace_lost, stdout_error, stderr_error })
    }
}

/// The last report about a command.
#[derive(Clone, Copy, Default)]
struct LastReports {
    exit: Option<CommandExit>,
    /// Processes that are left, and processes that were ended.
    left: Option<(usize, usize)>,
    is_trace_lost: bool,
}

/// The loop that runs in parallel to the output multiplexer.
struct ForegroundLoop<'a> {
    command: &'a CommandHandle,
    pty: Option<&'a Pty>,
    control: CommandControl,
    signals: Option<SignalGuard>,
    screen: Option<TerminalRelay<'a>>,
    /// This process was asked to stop, and the command has to stop first.
    asked_to_stop: bool,
    reports: LastReports,
}

/// The terminal outside, while the command's own is shown in it.
struct TerminalRelay<'a> {
    terminal: &'a StdioTerminal,
    raw: Option<RawMode>,
    pending: VecDeque<u8>,
    open: bool,
}

/// What the loop woke up for.
#[derive(Default)]
struct WakeReasons {
    report: bool,
    signal: bool,
    input: bool,
    room: bool,
}

impl<'a> ForegroundLoop<'a> {
    fn new(
        command: &'a CommandHandle,
        pty: Option<&'a Pty>,
        terminal: Option<&'a StdioTerminal>,
        signals: Option<ForegroundSignals>,
    ) -> Self {
        let guard = signals.map(|signals| signals.0);
        let screen = terminal.filter(|_| pty.is_some()).map(|terminal| TerminalRelay {
            terminal,
            raw: None,
            pending: VecDeque::new(),
            open: true,
        });
        let control = command.control();
        let last = LastReports::default();
        Self { command, pty, control, signals: guard, screen, asked_to_stop: false, reports: last }
    }

    fn run(&mut self) -> io::Result<LastReports> {
        self.enter_raw_mode()?;
        while self.reports.left.is_none() {
            let ready = self.wait()?;
            if ready.signal {
                self.forward_signals()?;
            }
            if ready.input {
                self.read_input();
            }
            if ready.room {
                self.write_input();
            }
            if ready.report && !self.handle_report()? {
                break;
            }
        }
        Ok(self.reports)
    }

    /// Gives the signals back once the command has ended: a reader that never reads can be left.
    ///
    /// With a terminal they are kept until it is restored.
    fn release_signals(&mut self) {
        if self.screen.is_none() {
            self.signals = None;
        }
    }

    /// Goes raw and takes over the size. Said to the supervisor first, who rescues the terminal.
    fn enter_raw_mode(&mut self) -> io::Result<()> {
        if let Some(screen) = &mut self.screen {
            self.control.set_raw_mode(true).ok();
            screen.raw = Some(screen.terminal.enter_raw_mode()?);
        }
        self.sync_size();
        Ok(())
    }

    /// Restores the terminal.
    fn restore_terminal(&mut self) {
        if let Some(screen) = &mut self.screen
            && screen.raw.take().is_some()
        {
            self.control.set_raw_mode(false).ok();
        }
    }

    fn sync_size(&self) {
        if let (Some(screen), Some(pty)) = (&self.screen, self.pty)
            && let Ok(size) = screen.terminal.size()
        {
            pty.resize(size).ok();
        }
    }

    fn wait(&self) -> io::Result<WakeReasons> {
        let mut fds = vec![PollFd::new(&self.command.link.incoming, PollFlags::IN)];
        let signal = self.signals.as_ref().map(|guard| PollFd::new(guard, PollFlags::IN));
        let screen = self.screen.as_ref().filter(|screen| screen.open);
        let input = screen
            .filter(|screen| screen.pending.len() < MAX_PENDING)
            .map(|screen| PollFd::new(screen.terminal, PollFlags::IN));
        let room = self
            .pty
            .filter(|_| screen.is_some_and(|screen| !screen.pending.is_empty()))
            .map(|pty| PollFd::new(pty, PollFlags::OUT));
        let present = [true, signal.is_some(), input.is_some(), room.is_some()];
        fds.extend([signal, input, room].into_iter().flatten());
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut woken = fds.iter().map(|fd| !fd.revents().is_empty());
        let [report, signal, input, room] =
            present.map(|present| present && woken.next().unwrap_or_default());
        Ok(WakeReasons { report, signal, input, room })
    }

    fn forward_signals(&mut self) -> io::Result<()> {
        let came = self.signals.as_ref().map(SignalGuard::take_pending).unwrap_or_default();
        for signal in came {
            match signal {
                SIGWINCH => self.sync_size(),
                // Handled in `suspend`.
                SIGCONT => {}
                SIGTSTP => {
                    self.asked_to_stop = true;
                    self.control.signal(SIGTSTP).ok();
                }
                other => {
                    self.control.signal(other).ok();
                }
            }
        }
        Ok(())
    }

    fn read_input(&mut self) {
        let Some(screen) = &mut self.screen else { return };
        let mut bytes = [0; 4096];
        match read(screen.terminal, &mut bytes) {
            Ok(count @ 1..) => screen.pending.extend(bytes.iter().take(count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The terminal was closed.
            Ok(_) | Err(_) => {
                screen.open = false;
                self.control.signal(SIGHUP).ok();
            }
        }
        self.write_input();
    }

    fn write_input(&mut self) {
        let (Some(screen), Some(pty)) = (&mut self.screen, self.pty) else { return };
        while !screen.pending.is_empty() {
            match write(pty, screen.pending.as_slices().0) {
                Ok(count @ 1..) => drop(screen.pending.drain(..count)),
                Err(Errno::INTR) => {}
                Ok(_) | Err(Errno::AGAIN) => return,
                // Its reader is gone.
                Err(_) => screen.pending.clear(),
            }
        }
    }

    /// Takes one report; says whether more can come.
    fn handle_report(&mut self) -> io::Result<bool> {
        // An incomplete frame means that the supervisor died.
        let Ok(Some(report)) = self.command.link.receive_report() else { return Ok(false) };
        match report {
            SupervisorReport::Stopped(_) => self.suspend()?,
            SupervisorReport::Exited(exit) => self.reports.exit = Some(exit),
            SupervisorReport::Ended { left, ended } => self.reports.left = Some((left, ended)),
            SupervisorReport::TraceLost => self.reports.is_trace_lost = true,
            SupervisorReport::Prepared { .. }
            | SupervisorReport::Ready(_)
            | SupervisorReport::Started
            | SupervisorReport::Failed(_) => {}
        }
        Ok(true)
    }

    /// Stops this process as the command has stopped, and wakes the command when woken itself.
    fn suspend(&mut self) -> io::Result<()> {
        let asked = std::mem::take(&mut self.asked_to_stop);
        let Some(guard) = &self.signals else { return Ok(()) };
        // Without a terminal a command that stops is its own business, unless we were asked.
        if self.screen.is_none() && !asked {
            return Ok(());
        }
        if can_be_woken()? {
            guard.take_pending();
            let whole_job = self.screen.is_some();
            self.restore_terminal();
            if whole_job {
                kill_current_process_group(Signal::STOP)?;
            } else {
                kill_process(getpid(), Signal::STOP)?;
            }
            self.wait_until_woken()?;
            self.enter_raw_mode()?;
        }
        self.control.signal(SIGCONT).ok();
        Ok(())
    }

    fn wait_until_woken(&self) -> io::Result<()> {
        let Some(guard) = &self.signals else { return Ok(()) };
        let deadline = Deadline::after(STOP_TIMEOUT);
        let mut fds = [PollFd::new(guard, PollFlags::IN)];
        match poll(&mut fds, deadline.timespec().as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// True if a shell in this session controls our job: without one, a stopped job is never resumed.
fn can_be_woken() -> io::Result<bool> {
    let Some(own) = ProcessStat::find(getpid().as_raw_nonzero().get())? else { return Ok(false) };
    let all = ProcessStat::list()?;
    let outside = |pid: i32| {
        all.iter().any(|one| one.pid == pid && one.session == own.session && one.pgrp != own.pgrp)
    };
    Ok(all.iter().any(|one| one.pgrp == own.pgrp && outside(one.parent)))
}
