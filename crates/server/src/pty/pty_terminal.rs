//! One terminal: what is known of it, its output, and its end.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use turnstone_core::id::PtyId;
use turnstone_process::{
    AttachOptions, CommandControl, OutputLimits, OutputRecorder, Pty, RunningCommand, TerminalSize,
};

use super::pty_command::parse_title;
use super::pty_registry::PtyLifetime;
use super::scrollback::{PtyScrollback, ScrollbackRead};
use crate::error::ApiError;
use crate::request_input::JsonFields;

/// How many sockets may show one terminal.
const MAX_SOCKETS: usize = 32;
/// The largest number of rows or columns.
const MAX_DIMENSION: u16 = 4_096;
/// How often is looked whether a program that does not read its input has ended.
const INPUT_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The number of the signal that says that a terminal was closed.
const SIGHUP: i32 = 1;
/// The code of a program whose end is unknown because its supervisor was killed.
const UNKNOWN_EXIT_CODE: i32 = 255;

/// A terminal as clients see it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PtyInfo {
    pub(super) id: PtyId,
    pub(super) title: String,
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) cwd: String,
    pub(super) status: PtyStatus,
    pub(super) pid: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
}

/// Whether the program of a terminal runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PtyStatus {
    /// It runs.
    Running,
    /// It has ended.
    Exited,
}

/// How far a terminal is, for its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PtyProgress {
    /// The position after its output.
    pub(super) end: u64,
    /// What the sockets do next.
    pub(super) phase: PtyPhase,
}

/// The life of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PtyPhase {
    /// More output may come.
    Running,
    /// All output is there.
    Exited,
    /// It was removed.
    Removed,
    /// The server stops.
    ServerStopping,
}

/// What a client changes of a terminal.
#[derive(Debug)]
pub(crate) struct PtyUpdateRequest {
    title: Option<String>,
    size: Option<TerminalSize>,
}

impl PtyUpdateRequest {
    /// Reads the body of a request.
    pub(crate) fn parse(mut fields: JsonFields) -> Result<Self, ApiError> {
        let title = parse_title(&mut fields)?;
        let size = match fields.object("size")? {
            Some(mut size) => Some(TerminalSize {
                rows: read_dimension(&mut size, "rows")?,
                columns: read_dimension(&mut size, "cols")?,
            }),
            None => None,
        };
        Ok(Self { title, size })
    }
}

fn read_dimension(size: &mut JsonFields, key: &str) -> Result<u16, ApiError> {
    let number = size.count(key)?.unwrap_or(0);
    let fits = u16::try_from(number).ok().filter(|side| (1..=MAX_DIMENSION).contains(side));
    fits.ok_or_else(|| {
        let expected = match number {
            0 => "a value greater than 0".to_owned(),
            _ => format!("a whole number from 1 to {MAX_DIMENSION}"),
        };
        size.invalid_field(key, &expected, &number.into())
    })
}

/// A program in a terminal.
pub(crate) struct PtyTerminal {
    /// The directory it belongs to.
    pub(super) directory: PathBuf,
    /// When it is forgotten.
    pub(super) lifetime: PtyLifetime,
    control: CommandControl,
    details: Mutex<PtyDetails>,
    output: Mutex<PtyScrollback>,
    progress: watch::Sender<PtyProgress>,
    sockets: Arc<Semaphore>,
}

struct PtyDetails {
    info: PtyInfo,
    /// Nothing once the program has ended.
    ends: Option<OpenPty>,
}

/// A terminal whose program runs, from outside.
struct OpenPty {
    pty: Pty,
    /// To the thread that types.
    typist: mpsc::Sender<Bytes>,
}

impl PtyTerminal {
    pub(super) fn new(
        info: PtyInfo,
        (directory, lifetime): (&Path, PtyLifetime),
        (control, pty, typist): (CommandControl, Pty, mpsc::Sender<Bytes>),
    ) -> Self {
        Self {
            directory: directory.to_owned(),
            lifetime,
            control,
            details: Mutex::new(PtyDetails { info, ends: Some(OpenPty { pty, typist }) }),
            output: Mutex::default(),
            progress: watch::Sender::new(PtyProgress { end: 0, phase: PtyPhase::Running }),
            sockets: Arc::new(Semaphore::new(MAX_SOCKETS)),
        }
    }

    fn details(&self) -> MutexGuard<'_, PtyDetails> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn output(&self) -> MutexGuard<'_, PtyScrollback> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What clients see.
    pub(crate) fn info(&self) -> PtyInfo {
        self.details().info.clone()
    }

    /// True while its program runs.
    pub(crate) fn is_running(&self) -> bool {
        self.details().info.status == PtyStatus::Running
    }

    /// Changes title and size. The size of one whose program has ended changes nothing.
    pub(crate) fn update(&self, change: PtyUpdateRequest) -> Result<PtyInfo, ApiError> {
        let mut details = self.details();
        if let (Some(size), Some(open)) = (change.size, &details.ends) {
            open.pty.resize(size).map_err(|error| ApiError::unexpected(&error))?;
        }
        if let Some(title) = change.title {
            details.info.title = title;
        }
        Ok(details.info.clone())
    }

    /// A place for one more socket; `None` if it has too many.
    pub(crate) fn acquire_socket(&self) -> Option<OwnedSemaphorePermit> {
        self.sockets.clone().try_acquire_owned().ok()
    }

    /// Where input goes; `None` if its program has ended.
    pub(super) fn input(&self) -> Option<mpsc::Sender<Bytes>> {
        self.details().ends.as_ref().map(|open| open.typist.clone())
    }

    /// Types what comes, as fast as the program reads, until the program has ended.
    pub(super) fn type_input(&self, pty: &Pty, mut input: mpsc::Receiver<Bytes>) {
        while let Some(mut bytes) = input.blocking_recv() {
            while !bytes.is_empty() {
                let typed = match pty.write_available(&bytes) {
                    Ok(count) => {
                        drop(bytes.split_to(count));
                        Ok(())
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        pty.wait_for_room(INPUT_POLL_INTERVAL)
                    }
                    Err(error) => Err(error),
                };
                if typed.is_err() || !self.is_running() {
                    return;
                }
            }
        }
    }

    /// What follows a position of its output.
    pub(super) fn read_output(&self, position: u64) -> ScrollbackRead {
        self.output().read(position)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<PtyProgress> {
        self.progress.subscribe()
    }

    /// Ends its program, and closes its sockets as `phase` says.
    pub(super) fn end(&self, phase: PtyPhase) {
        self.progress.send_modify(|progress| progress.phase = phase);
        // An interactive shell ignores SIGTERM. A supervisor that is gone has ended the program.
        self.control.signal(SIGHUP).ok();
        self.control.end().ok();
    }

    /// Stays with the program until it and what it started have ended; its exit code.
    ///
    /// Output is read as fast as it comes: the buffer is bounded, and no socket holds a program up.
    pub(super) fn attach(&self, running: RunningCommand) -> i32 {
        let limits = OutputLimits { head: 0, tail: 0, spill: 0 };
        let mut recorder = OutputRecorder::new(limits, None);
        let (mut stdout, mut stderr) = (TerminalOutput(self), io::sink());
        let options = AttachOptions {
            recorder: &mut recorder,
            stdout: &mut stdout,
            stderr: &mut stderr,
            terminal: None,
            signals: None,
        };
        match running.attach(options) {
            Ok(ended) => ended.exit.code(),
            Err(error) => {
                tracing::warn!("how a terminal ended is unknown: {error}");
                UNKNOWN_EXIT_CODE
            }
        }
    }

    /// Records the end of the program; true if no one had removed the terminal before.
    pub(super) fn set_exited(&self, code: i32) -> bool {
        let mut output = self.output();
        output.finish();
        let end = output.end();
        drop(output);
        let mut details = self.details();
        details.info.status = PtyStatus::Exited;
        details.info.exit_code = Some(code);
        details.ends = None;
        drop(details);
        let mut was_running = false;
        self.progress.send_modify(|progress| {
            progress.end = end;
            was_running = progress.phase == PtyPhase::Running;
            if was_running {
                progress.phase = PtyPhase::Exited;
            }
        });
        was_running
    }
}

/// Puts what a program writes into the buffer of its terminal.
struct TerminalOutput<'a>(&'a PtyTerminal);

impl Write for TerminalOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut output = self.0.output();
        output.push(bytes);
        let end = output.end();
        drop(output);
        self.0.progress.send_modify(|progress| progress.end = end);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
