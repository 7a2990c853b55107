//! What a supervisor and its holders say to each other: a few bytes, and descriptors with the first.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// What the launcher has in its memory for the holders to read.
pub(crate) const PROBE: [u8; 8] = *b"readable";

/// The first message to a holder; the listener and the log are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartMessage {
    pub(crate) supervisor: i32,
    pub(crate) launcher: u32,
    /// Where the launcher has the probe.
    pub(crate) address: u64,
}

/// What a supervisor asks for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderRequest {
    /// Write to the log what of the tree is left.
    ListTree,
}

/// What a holder answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderReply {
    Ready,
    MemoryNotReadable,
    Listed,
}

impl HolderRequest {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::ListTree => b'l',
        }
    }

    pub(crate) fn from_code([code]: [u8; 1]) -> Option<Self> {
        (code == Self::ListTree.code()).then_some(Self::ListTree)
    }
}

impl HolderReply {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ready => b'r',
            Self::MemoryNotReadable => b'm',
            Self::Listed => b'L',
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [Self::Ready, Self::MemoryNotReadable, Self::Listed]
            .into_iter()
            .find(|reply| reply.code() == code)
    }
}

impl StartMessage {
    const LENGTH: usize = 16;

    fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let parts = self.supervisor.to_le_bytes().into_iter().chain(self.launcher.to_le_bytes());
        let parts = parts.chain(self.address.to_le_bytes());
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
        bytes
    }

    fn decode(bytes: &[u8; Self::LENGTH]) -> Option<Self> {
        let (supervisor, rest) = bytes.split_first_chunk::<4>()?;
        let (launcher, rest) = rest.split_first_chunk::<4>()?;
        let (address, _) = rest.split_first_chunk::<8>()?;
        Some(Self {
            supervisor: i32::from_le_bytes(*supervisor),
            launcher: u32::from_le_bytes(*launcher),
            address: u64::from_le_bytes(*address),
        })
    }
}

/// Sends the first message in one piece.
pub(crate) fn send_start(
    socket: &UnixStream,
    message: StartMessage,
    fds: [BorrowedFd<'_>; 2],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("two descriptors do not fit"));
    }
    let bytes = message.encode();
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    if sent == bytes.len() { Ok(()) } else { Err(io::Error::other("a message was cut")) }
}

/// Receives the first message with listener and log; `None` if the supervisor goes without one.
pub(crate) fn receive_start(
    socket: &UnixStream,
) -> io::Result<Option<(StartMessage, OwnedFd, File)>> {
    let mut bytes = [0; StartMessage::LENGTH];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let mut fds = fds.into_iter();
    match (received.bytes, fds.next(), fds.next()) {
        (StartMessage::LENGTH, Some(listener), Some(log)) => {
            let start = StartMessage::decode(&bytes);
            Ok(start.map(|start| (start, listener, File::from(log))))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn start_message_arrives_with_its_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let message = StartMessage { supervisor: 7, launcher: 8, address: u64::MAX - 1 };
        send_start(&ours, message, [file.as_fd(), file.as_fd()]).unwrap();
        let (received, _, _) = receive_start(&theirs).unwrap().unwrap();
        assert_eq!(received, message);
        drop(ours);
        assert!(receive_start(&theirs).unwrap().is_none());
    }
}
