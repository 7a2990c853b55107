//! The pump: reads what a command writes, keeps it, and passes it on while it comes.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};

use crate::keep::{Keeper, Source};

const BUFFER: usize = 64 << 10;
/// What a pipe can still hold when its writer has ended (its largest size by default).
const REST: usize = 1 << 20;

/// Where one stream of the command comes from.
#[derive(Debug)]
struct Inlet {
    source: Source,
    fd: OwnedFd,
    /// A pipe is closed when nobody takes its bytes, so that its writer notices.
    pipe: bool,
}

/// Reads all streams of one command in the order in which they have something.
#[derive(Debug)]
pub(crate) struct Pump {
    inlets: Vec<Inlet>,
    /// Ends when the command has ended; what is there already is still read.
    stop: OwnedFd,
}

/// Who gets the output while it comes.
pub(crate) struct Takers<'a> {
    pub(crate) keeper: &'a mut Keeper,
    pub(crate) stdout: &'a mut (dyn Write + Send),
    pub(crate) stderr: &'a mut (dyn Write + Send),
}

/// Why output was not passed on, by stream.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    pub(crate) stdout: Option<io::Error>,
    pub(crate) stderr: Option<io::Error>,
}

/// What one read came to.
enum Got {
    Bytes(usize),
    Nothing,
    End,
}

impl Pump {
    pub(crate) fn new(
        terminal: Option<OwnedFd>,
        pipes: Vec<(Source, OwnedFd)>,
        stop: OwnedFd,
    ) -> io::Result<Self> {
        let terminal = terminal.map(|fd| Inlet { source: Source::Stdout, fd, pipe: false });
        let pipes = pipes.into_iter().map(|(source, fd)| Inlet { source, fd, pipe: true });
        let inlets: Vec<Inlet> = terminal.into_iter().chain(pipes).collect();
        for inlet in &inlets {
            fcntl_setfl(&inlet.fd, fcntl_getfl(&inlet.fd)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { inlets, stop })
    }

    /// Pumps until every stream has ended, or the command has and nothing is left.
    pub(crate) fn run(mut self, mut takers: Takers<'_>) -> io::Result<Broken> {
        let mut broken = Broken::default();
        let mut buffer = vec![0; BUFFER];
        while !self.inlets.is_empty() {
            let (ready, stopped) = self.wait()?;
            if stopped {
                self.drain(&mut takers, &mut broken, &mut buffer);
                break;
            }
            let mut ready = ready.into_iter();
            self.inlets.retain(|inlet| {
                !ready.next().unwrap_or_default()
                    || Self::step(inlet, &mut takers, &mut broken, &mut buffer).is_some()
            });
        }
        Ok(broken)
    }

    /// Says which streams have something, and whether the command has ended.
    fn wait(&self) -> io::Result<(Vec<bool>, bool)> {
        let fds = self.inlets.iter().map(|inlet| &inlet.fd).chain([&self.stop]);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let stopped = ready.pop().unwrap_or_default();
        Ok((ready, stopped))
    }

    /// Reads what the streams still hold; somebody who goes on writing is not waited for.
    fn drain(&mut self, takers: &mut Takers<'_>, broken: &mut Broken, buffer: &mut [u8]) {
        for inlet in std::mem::take(&mut self.inlets) {
            let mut taken = 0;
            while taken < REST {
                match Self::step(&inlet, takers, broken, buffer) {
                    Some(0) | None => break,
                    Some(count) => taken += count,
                }
            }
        }
    }

    /// Reads once and passes it on; nothing if the stream is to be closed.
    fn step(
        inlet: &Inlet,
        takers: &mut Takers<'_>,
        broken: &mut Broken,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let count = match read_once(inlet, buffer) {
            Got::Bytes(count) => count,
            Got::Nothing => return Some(0),
            Got::End => return None,
        };
        let bytes = buffer.get(..count)?;
        takers.keeper.push(inlet.source, bytes);
        let (writer, error) = match inlet.source {
            Source::Stdout => (&mut *takers.stdout, &mut broken.stdout),
            Source::Stderr => (&mut *takers.stderr, &mut broken.stderr),
        };
        if error.is_none() {
            *error = writer.write_all(bytes).and_then(|()| writer.flush()).err();
        }
        // The command then hears of it by its own write, as without us in between.
        (error.is_none() || !inlet.pipe).then_some(count)
    }
}

fn read_once(inlet: &Inlet, buffer: &mut [u8]) -> Got {
    match read(inlet.fd.as_fd(), buffer) {
        Ok(0) => Got::End,
        Ok(count) => Got::Bytes(count),
        Err(Errno::AGAIN | Errno::INTR) => Got::Nothing,
        // A terminal whose last user has gone answers EIO.
        Err(_) => Got::End,
    }
}
