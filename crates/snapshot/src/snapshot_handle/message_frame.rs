//! Frames: four bytes of length, then JSON. The peer is not trusted.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// No request and no answer is larger: plans for some hundred thousand files fit.
pub(super) const MAX_BYTES: u32 = 128 << 20;

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    /// The other side is gone, or does not respond.
    #[error("the connection broke")]
    Disconnected(#[source] io::Error),
    /// It announces more than is taken.
    #[error("a frame of {0} bytes is too large")]
    TooLarge(u32),
    /// It is not what was expected.
    #[error("the frame cannot be read")]
    Malformed(#[source] serde_json::Error),
}

/// Sends a value.
pub(super) fn write_frame(mut out: impl Write, value: &impl Serialize) -> Result<(), FrameError> {
    let bytes = serde_json::to_vec(value).map_err(FrameError::Malformed)?;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    if length > MAX_BYTES {
        return Err(FrameError::TooLarge(length));
    }
    let sent = out.write_all(&length.to_be_bytes()).and_then(|()| out.write_all(&bytes));
    sent.and_then(|()| out.flush()).map_err(FrameError::Disconnected)
}

/// Receives a value. Memory is taken as bytes arrive, not as they are announced.
pub(super) fn read_frame<T: DeserializeOwned>(mut from: impl Read) -> Result<T, FrameError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(FrameError::Disconnected)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_BYTES {
        return Err(FrameError::TooLarge(length));
    }
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes).map_err(FrameError::Disconnected)?;
    if bytes.len() < length as usize {
        return Err(FrameError::Disconnected(io::ErrorKind::UnexpectedEof.into()));
    }
    serde_json::from_slice(&bytes).map_err(FrameError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_frame_is_an_error_and_allocates_only_received_bytes() {
        let read = |bytes: &[u8]| read_frame::<u32>(bytes);
        let mut good = Vec::new();
        write_frame(&mut good, &7_u32).unwrap();

        assert_eq!(read(&good).unwrap(), 7);
        assert!(matches!(read(&good[..4]), Err(FrameError::Disconnected(_))));
        assert!(matches!(read(b"\0"), Err(FrameError::Disconnected(_))));
        assert!(matches!(read(b"GET / HTTP/1.1\r\n"), Err(FrameError::TooLarge(_))));
        assert!(matches!(read(&MAX_BYTES.to_be_bytes()), Err(FrameError::Disconnected(_))));
        assert!(matches!(read(b"\0\0\0\x02{}"), Err(FrameError::Malformed(_))));
    }
}
