//! Kills programs: starts one, reads the lines by which it acknowledges, and kills it.
//!
//! SIGKILL keeps what the kernel already has, so this tests the order of work, not the disk; for
//! that see `powerloss`. Owns the processes it starts: none of them outlives its [`KillableProgram`].

use std::{
    io::{self, BufRead, BufReader},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{fixture::SeededRng, strace_run};

const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How long the pipes may take to end once the program is dead.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a crash could not be staged.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// The program could not be started, signalled or read.
    #[error("the program could not be run")]
    Io(#[from] io::Error),
    /// The program was still running after the time it was given; it has been killed.
    #[error("the program did not end within {limit:?}, having acknowledged {lines} lines")]
    Timeout {
        /// The time it was given.
        limit: Duration,
        /// Lines read until then.
        lines: usize,
    },
    /// The program should have died by SIGKILL or SIGABRT and did not.
    #[error("the program was to die and {:?} instead; it said: {}", .0.death, .0.stderr)]
    Survived(Box<ProgramOutcome>),
    /// A process that was killed left children that hold its output open.
    #[error("a child of the killed program still holds its output open")]
    OutputStillOpen,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCause {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

impl ExitCause {
    /// Whether the program had no chance to clean up: SIGKILL or SIGABRT.
    #[must_use]
    pub fn is_kill_or_abort(self) -> bool {
        let sudden = [Signal::KILL.as_raw(), Signal::ABORT.as_raw()];
        matches!(self, Self::Signalled(signal) if sudden.contains(&signal))
    }
}

impl From<ExitStatus> for ExitCause {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signalled(signal.unwrap_or_default()),
        }
    }
}

/// What is known of a program after its end.
#[derive(Clone, Debug)]
pub struct ProgramOutcome {
    /// Every complete line it printed; a last line without its line feed was not acknowledged.
    pub acknowledged: Vec<String>,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// How it ended.
    pub death: ExitCause,
}

/// When to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTrigger {
    /// As soon as so many lines have been read.
    Lines(usize),
    /// After so much time.
    After(Duration),
}

impl KillTrigger {
    /// Returns a random trigger: lines or time with equal chance, each up to its limit.
    pub fn random(rng: &mut SeededRng, lines: usize, time: Duration) -> Self {
        if rng.below(2) == 0 {
            Self::Lines(rng.in_range(0..=lines as u64) as usize)
        } else {
            Self::After(Duration::from_micros(rng.in_range(0..=time.as_micros() as u64)))
        }
    }
}

/// A running program that will be killed, or waited for.
///
/// Leads a process group of its own; dropping it kills the group.
#[derive(Debug)]
pub struct KillableProgram {
    child: Child,
    incoming: Receiver<String>,
    acknowledged: Vec<String>,
    stderr: Option<JoinHandle<io::Result<Vec<u8>>>>,
    ended: Option<ExitStatus>,
}

impl KillableProgram {
    /// Starts `command` with its outputs piped to this process.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, CrashError> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let (sender, incoming) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || forward_lines(stdout, &sender));
        }
        let stderr = Some(strace_run::spawn_pipe_reader(child.stderr.take()));
        Ok(Self { child, incoming, acknowledged: Vec::new(), stderr, ended: None })
    }

    /// The process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// The lines read so far.
    #[must_use]
    pub fn acknowledged(&mut self) -> &[String] {
        self.acknowledged.extend(self.incoming.try_iter());
        &self.acknowledged
    }

    /// Waits until `count` lines have been read or the output has ended; returns the lines.
    ///
    /// # Errors
    ///
    /// [`CrashError::Timeout`]; the program goes on.
    pub fn wait_for_lines(
        &mut self,
        count: usize,
        limit: Duration,
    ) -> Result<&[String], CrashError> {
        let started = Instant::now();
        while self.acknowledged.len() < count {
            let left = limit.saturating_sub(started.elapsed());
            match self.incoming.recv_timeout(left) {
                Ok(line) => self.acknowledged.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(self.timeout_error(limit)),
            }
        }
        Ok(&self.acknowledged)
    }

    /// Suspends the program and waits until it has stopped.
    ///
    /// # Errors
    ///
    /// The process is gone.
    pub fn suspend(&self) -> Result<(), CrashError> {
        self.signal(Signal::STOP)?;
        while !self.is_suspended()? {
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Lets a suspended program go on.
    ///
    /// # Errors
    ///
    /// The process is gone.
    pub fn resume(&self) -> Result<(), CrashError> {
        self.signal(Signal::CONT)
    }

    /// Kills the program, not its children, with SIGKILL, and collects what it acknowledged.
    ///
    /// # Errors
    ///
    /// [`CrashError::OutputStillOpen`] if children of the program keep its output open.
    pub fn kill(mut self) -> Result<ProgramOutcome, CrashError> {
        if self.child.try_wait()?.is_none() {
            self.child.kill()?;
        }
        self.collect_outcome()
    }

    /// Kills the program and all its children that stayed in its process group.
    ///
    /// # Errors
    ///
    /// The process cannot be signalled.
    pub fn kill_group(mut self) -> Result<ProgramOutcome, CrashError> {
        if self.child.try_wait()?.is_none() {
            kill_process_group(Pid::from_child(&self.child), Signal::KILL)
                .map_err(io::Error::from)?;
        }
        self.collect_outcome()
    }

    /// Kills the program when `trigger` says so, or earlier if `limit` has passed.
    ///
    /// A program that ends before is no error: look at [`ProgramOutcome::death`].
    ///
    /// # Errors
    ///
    /// As [`KillableProgram::kill`].
    pub fn kill_on(
        mut self,
        trigger: KillTrigger,
        limit: Duration,
    ) -> Result<ProgramOutcome, CrashError> {
        match trigger {
            KillTrigger::Lines(count) => match self.wait_for_lines(count, limit) {
                Ok(_) | Err(CrashError::Timeout { .. }) => {}
                Err(error) => return Err(error),
            },
            KillTrigger::After(time) => thread::sleep(time.min(limit)),
        }
        self.kill()
    }

    /// Waits for the program to end by itself.
    ///
    /// # Errors
    ///
    /// [`CrashError::Timeout`]; the program has been killed.
    pub fn wait(mut self, limit: Duration) -> Result<ProgramOutcome, CrashError> {
        let started = Instant::now();
        while self.child.try_wait()?.is_none() {
            if started.elapsed() > limit {
                return Err(self.timeout_error(limit));
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.collect_outcome()
    }

    fn timeout_error(&self, limit: Duration) -> CrashError {
        CrashError::Timeout { limit, lines: self.acknowledged.len() }
    }

    fn signal(&self, signal: Signal) -> Result<(), CrashError> {
        kill_process(Pid::from_child(&self.child), signal).map_err(io::Error::from)?;
        Ok(())
    }

    fn is_suspended(&self) -> Result<bool, CrashError> {
        for task in fs_err::read_dir(format!("/proc/{}/task", self.process_id()))? {
            let stat = fs_err::read_to_string(task?.path().join("stat"))?;
            // The state follows the name, which is in parentheses and may hold any character.
            let state =
                stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
            if state != Some('T') {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn collect_outcome(mut self) -> Result<ProgramOutcome, CrashError> {
        let status = self.child.wait()?;
        self.ended = Some(status);
        let started = Instant::now();
        loop {
            match self.incoming.recv_timeout(DRAIN_TIMEOUT.saturating_sub(started.elapsed())) {
                Ok(line) => self.acknowledged.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(CrashError::OutputStillOpen),
            }
        }
        let stderr = match self.stderr.take() {
            Some(reader) => strace_run::join_pipe_reader(reader)?,
            None => Vec::new(),
        };
        Ok(ProgramOutcome {
            acknowledged: std::mem::take(&mut self.acknowledged),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            death: status.into(),
        })
    }
}

impl Drop for KillableProgram {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // A failure cannot be reported from here; the process may have exited already.
            kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
            self.child.wait().ok();
        }
    }
}

fn forward_lines(stdout: ChildStdout, sender: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if line.pop() != Some(b'\n') {
            return; // The program died within a line.
        }
        if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            return;
        }
        line.clear();
    }
}

/// Runs `command` with `FAILPOINTS` set to `failpoints` and expects it to die there.
///
/// The program is built with the `fail` crate's `failpoints` feature, calls `FailScenario::setup`,
/// and turns a panic into an abort (`panic = "abort"`, or a panic hook that calls
/// `std::process::abort`), so that no destructor runs, as after `kill -9`. For example
/// `store::after_commit=3*off->panic` dies at the fourth commit.
///
/// # Errors
///
/// [`CrashError::Survived`] if it ended in any other way, [`CrashError::Timeout`] if it did not end.
pub fn run_until_failpoint(
    command: &mut Command,
    failpoints: &str,
    limit: Duration,
) -> Result<ProgramOutcome, CrashError> {
    let outcome = KillableProgram::start(command.env("FAILPOINTS", failpoints))?.wait(limit)?;
    if outcome.death.is_kill_or_abort() {
        Ok(outcome)
    } else {
        Err(CrashError::Survived(Box::new(outcome)))
    }
}

/// Runs two programs at once and waits for both.
///
/// # Errors
///
/// One of them cannot be started or does not end within `limit`; both have been killed.
pub fn run_concurrently(
    first: &mut Command,
    second: &mut Command,
    limit: Duration,
) -> Result<(ProgramOutcome, ProgramOutcome), CrashError> {
    let started = Instant::now();
    let first = KillableProgram::start(first)?;
    let second = KillableProgram::start(second)?;
    let first = first.wait(limit)?;
    let second = second.wait(limit.saturating_sub(started.elapsed()))?;
    Ok((first, second))
}
