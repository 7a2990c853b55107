//! The pump: reads what a command writes, keeps it, and passes it on while it comes.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};

use crate::output_recorder::{OutputRecorder, OutputSource};

const BUFFER_BYTES: usize = 64 << 10;
/// What a pipe can still hold when its writer has ended (its largest size by default).
const MAX_DRAIN_BYTES: usize = 1 << 20;

/// Where one stream of the command comes from.
#[derive(Debug)]
struct SourceStream {
    source: OutputSource,
    fd: OwnedFd,
    /// A pipe is closed when no one takes its bytes, so that its writer notices.
    pipe: bool,
}

/// Reads all streams of one command in the order in which they have something.
#[derive(Debug)]
pub(crate) struct StreamMultiplexer {
    streams: Vec<SourceStream>,
    /// Ends when the command has ended; what is there already is still read.
    stop: OwnedFd,
}

/// Who gets the output while it comes.
pub(crate) struct OutputSinks<'a> {
    pub(crate) recorder: &'a mut OutputRecorder,
    pub(crate) stdout: &'a mut (dyn Write + Send),
    pub(crate) stderr: &'a mut (dyn Write + Send),
}

/// Why output was not passed on, by stream.
#[derive(Debug, Default)]
pub(crate) struct SinkErrors {
    pub(crate) stdout: Option<io::Error>,
    pub(crate) stderr: Option<io::Error>,
}

/// What one read came to.
enum ReadOutcome {
    Bytes(usize),
    Nothing,
    End,
}

impl StreamMultiplexer {
    pub(crate) fn new(
        terminal: Option<OwnedFd>,
        pipes: Vec<(OutputSource, OwnedFd)>,
        stop: OwnedFd,
    ) -> io::Result<Self> {
        let terminal =
            terminal.map(|fd| SourceStream { source: OutputSource::Stdout, fd, pipe: false });
        let pipes = pipes.into_iter().map(|(source, fd)| SourceStream { source, fd, pipe: true });
        let inlets: Vec<SourceStream> = terminal.into_iter().chain(pipes).collect();
        for inlet in &inlets {
            fcntl_setfl(&inlet.fd, fcntl_getfl(&inlet.fd)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { streams: inlets, stop })
    }

    /// Pumps until every stream has ended, or the command has and nothing is left.
    pub(crate) fn run(mut self, mut sinks: OutputSinks<'_>) -> io::Result<SinkErrors> {
        let mut broken = SinkErrors::default();
        let mut buffer = vec![0; BUFFER_BYTES];
        while !self.streams.is_empty() {
            let (ready, stopped) = self.wait()?;
            if stopped {
                self.drain(&mut sinks, &mut broken, &mut buffer);
                break;
            }
            let mut ready = ready.into_iter();
            self.streams.retain(|inlet| {
                !ready.next().unwrap_or_default()
                    || Self::forward_once(inlet, &mut sinks, &mut broken, &mut buffer).is_some()
            });
        }
        Ok(broken)
    }

    /// Says which streams have something, and whether the command has ended.
    fn wait(&self) -> io::Result<(Vec<bool>, bool)> {
        let fds = self.streams.iter().map(|inlet| &inlet.fd).chain([&self.stop]);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let stopped = ready.pop().unwrap_or_default();
        Ok((ready, stopped))
    }

    /// Reads what the streams still hold, without waiting for a process that continues to write.
    fn drain(&mut self, sinks: &mut OutputSinks<'_>, broken: &mut SinkErrors, buffer: &mut [u8]) {
        for inlet in std::mem::take(&mut self.streams) {
            let mut taken = 0;
            while taken < MAX_DRAIN_BYTES {
                match Self::forward_once(&inlet, sinks, broken, buffer) {
                    Some(0) | None => break,
                    Some(count) => taken += count,
                }
            }
        }
    }

    /// Reads once and passes it on; `None` if the stream is to be closed.
    fn forward_once(
        inlet: &SourceStream,
        sinks: &mut OutputSinks<'_>,
        broken: &mut SinkErrors,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let count = match read_once(inlet, buffer) {
            ReadOutcome::Bytes(count) => count,
            ReadOutcome::Nothing => return Some(0),
            ReadOutcome::End => return None,
        };
        let bytes = buffer.get(..count)?;
        sinks.recorder.push(inlet.source, bytes);
        let (writer, error) = match inlet.source {
            OutputSource::Stdout => (&mut *sinks.stdout, &mut broken.stdout),
            OutputSource::Stderr => (&mut *sinks.stderr, &mut broken.stderr),
        };
        if error.is_none() {
            *error = writer.write_all(bytes).and_then(|()| writer.flush()).err();
        }
        // The next write of the command then fails, as if it wrote to the sink directly.
        (error.is_none() || !inlet.pipe).then_some(count)
    }
}

fn read_once(inlet: &SourceStream, buffer: &mut [u8]) -> ReadOutcome {
    match read(inlet.fd.as_fd(), buffer) {
        Ok(0) => ReadOutcome::End,
        Ok(count) => ReadOutcome::Bytes(count),
        Err(Errno::AGAIN | Errno::INTR) => ReadOutcome::Nothing,
        // A terminal whose last user has gone answers EIO.
        Err(_) => ReadOutcome::End,
    }
}
