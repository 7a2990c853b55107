//! Many event streams, read by one thread with `epoll`: the client must cost less than what it measures.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::Fallible;

/// How long all streams may take to open, and to receive one event.
const FAN_OUT_TIMEOUT: Duration = Duration::from_secs(120);

/// Sockets that are reported at a time.
const EVENT_BATCH: usize = 256;

/// Open streams.
pub(crate) struct StreamCrowd {
    epoll: OwnedFd,
    streams: Vec<CrowdStream>,
    buffer: Vec<u8>,
}

struct CrowdStream {
    socket: TcpStream,
    /// The end of what was read, shorter than the mark.
    tail: Vec<u8>,
    is_done: bool,
}

impl StreamCrowd {
    /// Opens `count` streams of all directories; each has sent its first event.
    pub(crate) fn open(address: SocketAddr, count: usize) -> Fallible<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut streams = Vec::with_capacity(count);
        for nth in 0..count {
            let mut socket = TcpStream::connect(address)?;
            socket.write_all(
                b"GET /global/event HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n",
            )?;
            socket.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(nth as u64);
            epoll::add(&epoll, &socket, data, epoll::EventFlags::IN)?;
            streams.push(CrowdStream { socket, tail: Vec::new(), is_done: false });
        }
        let mut crowd = Self { epoll, streams, buffer: vec![0; 64 << 10] };
        crowd.wait_until_all_received("server.connected")?;
        Ok(crowd)
    }

    /// Reads until every stream has received `mark`; returns the moment at which the last one had.
    pub(crate) fn wait_until_all_received(&mut self, mark: &str) -> Fallible<Instant> {
        let finder = memmem::Finder::new(mark.as_bytes());
        for stream in &mut self.streams {
            stream.is_done = false;
        }
        let until = Instant::now() + FAN_OUT_TIMEOUT;
        let (mut missing, mut events) = (self.streams.len(), Vec::with_capacity(EVENT_BATCH));
        while missing > 0 {
            if Instant::now() > until {
                let count = self.streams.len();
                return Err(format!("{} of {count} streams received it", count - missing).into());
            }
            events.clear();
            let wait = Timespec { tv_sec: 1, tv_nsec: 0 };
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait))?;
            for event in &events {
                let nth = usize::try_from(event.data.u64())?;
                let stream = &mut self.streams[nth];
                let count = match stream.socket.read(&mut self.buffer) {
                    Ok(0) => return Err("a stream ended".into()),
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(error.into()),
                };
                if !stream.is_done && stream.contains(&finder, &self.buffer[..count]) {
                    stream.is_done = true;
                    missing -= 1;
                }
            }
        }
        Ok(Instant::now())
    }
}

impl CrowdStream {
    /// True if the mark is in `data`, or begins in what was read before it.
    fn contains(&mut self, finder: &memmem::Finder<'_>, data: &[u8]) -> bool {
        if finder.find(data).is_some() {
            self.tail.clear();
            return true;
        }
        self.tail.extend_from_slice(data);
        let is_found = finder.find(&self.tail).is_some();
        let kept = if is_found { 0 } else { finder.needle().len() - 1 };
        let cut = self.tail.len().saturating_sub(kept);
        self.tail.drain(..cut);
        is_found
    }
}
