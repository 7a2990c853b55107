//! Programs whose output goes to a pseudo-terminal: what a person's terminal would receive.
//!
//! Each stream is a terminal or a pipe by itself, so a test sees which bytes went where. The
//! terminals change nothing on the way: a line feed stays one byte.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// What a stream of the program is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A pseudo-terminal of 100 columns.
    Terminal,
    /// A pipe.
    Pipe,
}

/// What a program wrote.
#[derive(Debug)]
pub struct CapturedOutput {
    /// The bytes of standard output.
    pub stdout: Vec<u8>,
    /// The bytes of standard error.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub status: ExitStatus,
}

/// Runs a program to its end with its output connected as asked; its input is empty.
///
/// # Errors
///
/// A terminal cannot be opened, or the program cannot be started or waited for.
pub fn run_with_streams(
    command: &mut Command,
    stdout: StreamKind,
    stderr: StreamKind,
) -> io::Result<CapturedOutput> {
    let (out_end, out_reader) = open_stream(stdout)?;
    let (err_end, err_reader) = open_stream(stderr)?;
    let mut child = command.stdin(Stdio::null()).stdout(out_end).stderr(err_end).spawn()?;
    // The command keeps our copies of the other ends; without them the readers see the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = child.wait()?;
    Ok(CapturedOutput { stdout: out_reader.finish()?, stderr: err_reader.finish()?, status })
}

/// Reads what a program writes, as it comes.
#[derive(Debug)]
pub struct OutputReader(JoinHandle<io::Result<Vec<u8>>>);

impl OutputReader {
    fn start(source: impl Read + Send + 'static) -> Self {
        Self(std::thread::spawn(move || read_all(source)))
    }

    /// Returns everything that was written, once the program has exited and all copies of its end are closed.
    ///
    /// # Errors
    ///
    /// The stream could not be read.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        self.0.join().map_err(|_| io::Error::other("the reader of a stream panicked"))?
    }
}

/// Opens a stream: the end a program gets, and what reads from it.
///
/// # Errors
///
/// The terminal or the pipe cannot be opened.
pub fn open_stream(target: StreamKind) -> io::Result<(Stdio, OutputReader)> {
    match target {
        StreamKind::Pipe => {
            let (reader, writer) = io::pipe()?;
            Ok((writer.into(), OutputReader::start(reader)))
        }
        StreamKind::Terminal => {
            let (slave, master) = open_terminal()?;
            Ok((slave.into(), OutputReader::start(master)))
        }
    }
}

/// Opens a terminal: the program's end and ours.
fn open_terminal() -> io::Result<(File, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let name = name.to_str().map_err(io::Error::other)?;
    let slave: File = fs_err::OpenOptions::new().read(true).write(true).open(name)?.into_parts().0;
    let mut modes = tcgetattr(&slave)?;
    modes.output_modes.remove(OutputModes::OPOST);
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size)?;
    Ok((slave, File::from(master)))
}

/// Reads to the end; a terminal ends with an error when its last user closes it.
fn read_all(mut source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match source.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            Ok(bytes)
        }
        Err(error) => Err(error),
    }
}

/// A program at a terminal that a test reads and types at. Killed when it is dropped.
#[derive(Debug)]
pub struct TerminalProgram {
    child: Child,
    terminal: File,
    screen: Arc<(Mutex<TerminalScreen>, Condvar)>,
}

/// What a program wrote to its terminal so far.
#[derive(Debug, Default)]
struct TerminalScreen {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl TerminalProgram {
    /// Starts a program whose input and output are one terminal.
    ///
    /// # Errors
    ///
    /// The terminal cannot be opened, or the program cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let (slave, master) = open_terminal()?;
        let ends = (slave.try_clone()?, slave.try_clone()?);
        let child = command.stdin(slave).stdout(ends.0).stderr(ends.1).spawn()?;
        // The command keeps our copies of the other end; without them the reader sees the end.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let screen = Arc::<(Mutex<TerminalScreen>, Condvar)>::default();
        let (mut source, shown) = (master.try_clone()?, screen.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let count = source.read(&mut buffer).unwrap_or(0);
                let mut now = shown.0.lock().unwrap_or_else(PoisonError::into_inner);
                now.bytes.extend_from_slice(&buffer[..count]);
                now.has_ended = count == 0;
                shown.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        Ok(Self { child, terminal: master, screen })
    }

    /// Waits until the program has written `text`.
    ///
    /// # Errors
    ///
    /// The program ended without it; with everything it wrote.
    pub fn wait_for(&self, text: &str) -> io::Result<()> {
        let mut now = self.screen.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let shown = String::from_utf8_lossy(&now.bytes).into_owned();
            if shown.contains(text) {
                return Ok(());
            }
            if now.has_ended {
                return Err(io::Error::other(format!("no {text:?} in {shown}")));
            }
            now = self.screen.1.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Types a line.
    ///
    /// # Errors
    ///
    /// The terminal is closed.
    pub fn type_line(&mut self, line: &str) -> io::Result<()> {
        self.terminal.write_all(format!("{line}\n").as_bytes())
    }

    /// Sends the signal of Ctrl-C.
    ///
    /// # Errors
    ///
    /// The program has ended.
    pub fn interrupt(&self) -> io::Result<()> {
        let id = Pid::from_child(&self.child);
        Ok(kill_process(id, Signal::INT)?)
    }

    /// Waits for the end of the program; returns what it wrote and how it ended.
    ///
    /// # Errors
    ///
    /// It cannot be waited for.
    pub fn finish(mut self) -> io::Result<(String, ExitStatus)> {
        let status = self.child.wait()?;
        let mut now = self.screen.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !now.has_ended {
            now = self.screen.1.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        Ok((String::from_utf8_lossy(&now.bytes).into_owned(), status))
    }
}

impl Drop for TerminalProgram {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
