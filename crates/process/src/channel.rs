//! The socket between owner, supervisor and launcher: frames of JSON, with descriptors attached.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Arguments and environment together are at most 2 MiB on Linux; as JSON four times that.
const MAX_FRAME: usize = 16 << 20;
/// Standard input, output and error, and the terminal outside.
const MAX_FDS: usize = 4;

/// One end of the socket. Its peer is gone when a read ends or fails.
#[derive(Debug)]
pub(crate) struct Channel(UnixStream);

impl Channel {
    /// Makes both ends. Neither is inherited by any program; one is meant to become a stdin.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((Self(ours), theirs.into()))
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self(UnixStream::from(fd))
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Ends the conversation for every copy of this end.
    pub(crate) fn shut_down(&self) {
        self.0.shutdown(Shutdown::Both).ok();
    }

    /// Sends one frame, and the descriptors with its first bytes.
    pub(crate) fn send(&self, value: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let body = serde_json::to_vec(value)?;
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        let mut frame = length.to_le_bytes().to_vec();
        frame.extend_from_slice(&body);
        let sent = if fds.is_empty() { 0 } else { self.send_fds(&frame, fds)? };
        (&self.0).write_all(frame.get(sent..).unwrap_or_default())
    }

    fn send_fds(&self, frame: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("too many descriptors for one frame"));
        }
        Ok(rustix::io::retry_on_intr(|| {
            sendmsg(&self.0, &[IoSlice::new(frame)], &mut ancillary, SendFlags::NOSIGNAL)
        })?)
    }

    /// Receives one frame with its descriptors; nothing when the peer is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut length = [0; 4];
        let mut fds = Vec::new();
        let mut filled = 0;
        while filled < length.len() {
            match self.receive_fds(&mut length[filled..], &mut fds) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                // A peer that died with unread frames resets the connection.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
        }
        let mut body = vec![0; length];
        (&self.0).read_exact(&mut body)?;
        Ok(Some((serde_json::from_slice(&body)?, fds)))
    }

    fn receive_fds(&self, into: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::io::retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut *into)];
            recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        Ok(got.bytes)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_carry_descriptors() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::from_fd(theirs);
        let (read, write) = rustix::pipe::pipe().unwrap();
        ours.send(&"first", &[write.as_fd()]).unwrap();
        ours.send(&"second", &[]).unwrap();
        drop(write);

        let (text, fds) = theirs.receive::<String>().unwrap().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("first", 1));
        rustix::io::write(&fds[0], b"x").unwrap();
        drop(fds);
        let mut bytes = Vec::new();
        fs_err::File::from_parts(read.into(), "pipe").read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"x");
        assert_eq!(theirs.receive::<String>().unwrap().unwrap().0, "second");
    }

    #[test]
    fn closed_peer_is_eof_and_partial_frame_is_an_error() {
        let (ours, theirs) = Channel::pair().unwrap();
        drop(ours);
        assert!(Channel::from_fd(theirs).receive::<String>().unwrap().is_none());

        let (ours, theirs) = Channel::pair().unwrap();
        (&ours.0).write_all(&[9, 0]).unwrap();
        drop(ours);
        assert!(Channel::from_fd(theirs).receive::<String>().is_err());
    }
}
