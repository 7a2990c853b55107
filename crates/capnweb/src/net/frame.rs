//! Frames: what the peer's mean, and how ours end a session.

use tokio_tungstenite::tungstenite::error::{CapacityError, Error, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::error::RpcError;
use crate::wire::{DecodeError, WireLimits};

/// Bytes a socket reads ahead. The library keeps 128 KiB for every one, idle or not.
const READ_BUFFER: usize = 8 * 1024;

/// The code that npm closes with.
const CLOSED: u16 = 3000;
const CLOSED_NORMALLY: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
/// What the peer is told when it closes without a code.
const NO_STATUS: u16 = 1005;
/// The connection was lost.
const ABNORMAL: u16 = 1006;
const INVALID_TEXT: u16 = 1007;
const POLICY: u16 = 1008;
const TOO_BIG: u16 = 1009;

/// The code of errors about messages beyond the limit of either side.
const TOO_LARGE: &str = "message_too_large";

/// What a frame of the peer's says.
pub(super) enum Incoming<'a> {
    Text(&'a str),
    /// Not usable: the protocol is text.
    Binary,
    /// The peer, or the network, ended the connection.
    Closed(RpcError),
    /// The peer broke the rules of WebSockets. It is told so with that code; nothing can be read.
    Broken(u16, RpcError),
    /// Pings and their answers.
    Other,
}

/// Reads what the library returned.
pub(super) fn read<'a>(
    frame: Option<&'a Result<Message, Error>>,
    limits: &WireLimits,
) -> Incoming<'a> {
    match frame {
        Some(Ok(Message::Text(text))) => Incoming::Text(text.as_str()),
        Some(Ok(Message::Binary(_))) => Incoming::Binary,
        Some(Ok(Message::Close(Some(frame)))) => closed(frame.code.into(), frame.reason.as_str()),
        Some(Ok(Message::Close(None))) => closed(NO_STATUS, ""),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Incoming::Other,
        Some(Err(error)) => broken(error, limits),
        None => closed(ABNORMAL, ""),
    }
}

fn closed(code: u16, reason: &str) -> Incoming<'static> {
    let message = format!("Peer closed WebSocket: {code} {reason}");
    Incoming::Closed(match code {
        TOO_BIG => RpcError::coded(TOO_LARGE, message),
        _ => RpcError::new("Error", message),
    })
}

fn broken(error: &Error, limits: &WireLimits) -> Incoming<'static> {
    if let Error::Capacity(CapacityError::MessageTooLong { .. }) = error {
        let told = DecodeError::TooLong(limits.message_bytes).to_string();
        return Incoming::Broken(TOO_BIG, RpcError::coded(TOO_LARGE, told));
    }
    if let Error::Utf8(_) = error {
        let told = "a text frame is not valid UTF-8";
        return Incoming::Broken(INVALID_TEXT, RpcError::coded("protocol", told));
    }
    if let Error::Protocol(what) = error
        && !matches!(what, ProtocolError::ResetWithoutClosingHandshake)
    {
        return Incoming::Broken(PROTOCOL_ERROR, RpcError::coded("protocol", what.to_string()));
    }
    closed(ABNORMAL, "")
}

/// Makes the frame that ends a session for that reason.
pub(super) fn close(broken: Option<u16>, reason: Option<&RpcError>) -> Message {
    let code = broken.unwrap_or_else(|| match reason.and_then(RpcError::code) {
        Some("age") => CLOSED_NORMALLY,
        Some("slow") => POLICY,
        _ => CLOSED,
    });
    let reason = close_reason(reason.map_or("", |error| error.message.as_str()));
    Message::Close(Some(CloseFrame { code: code.into(), reason: Utf8Bytes::from(reason) }))
}

/// Sets the library up for those limits.
pub(super) fn config(limits: &WireLimits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
}

/// Cuts a reason to what a close frame holds, on a character boundary.
fn close_reason(message: &str) -> &str {
    const MOST: usize = 123;
    &message[..message.floor_char_boundary(MOST)]
}

#[cfg(test)]
mod tests {
    use super::close_reason;

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(close_reason("short"), "short");
        assert_eq!(close_reason(&"ü".repeat(100)).len(), 122);
        assert_eq!(close_reason(&"x".repeat(200)).len(), 123);
    }
}
