//! Frames: what the peer's mean, and how ours end a session.

use tokio_tungstenite::tungstenite::error::{CapacityError, Error, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::error::RpcError;
use crate::wire::{DecodeError, WireLimits};

/// Bytes a socket reads ahead. The library keeps 128 KiB for every one, idle or not.
const READ_BUFFER: usize = 8 * 1024;

/// The code that npm closes with.
const CLOSE_NPM: u16 = 3000;
const CLOSED_NORMALLY: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
/// The answer to a peer that closes without a code.
const NO_STATUS: u16 = 1005;
/// The connection was lost.
const ABNORMAL_CLOSURE: u16 = 1006;
const INVALID_TEXT: u16 = 1007;
const POLICY_VIOLATION: u16 = 1008;
const MESSAGE_TOO_BIG: u16 = 1009;

/// The code of errors about messages beyond the limit of either side.
const TOO_LARGE_CODE: &str = "message_too_large";

/// What a frame of the peer's says.
pub(super) enum IncomingFrame<'a> {
    Text(&'a str),
    /// Not usable: the protocol is text.
    Binary,
    /// The peer, or the network, ended the connection.
    Closed(RpcError),
    /// The peer violated the WebSocket protocol. The close frame has that code; nothing more is read.
    ProtocolViolation(u16, RpcError),
    /// Pings and their answers.
    Other,
}

/// Reads what the library returned.
pub(super) fn classify_frame<'a>(
    frame: Option<&'a Result<Message, Error>>,
    limits: &WireLimits,
) -> IncomingFrame<'a> {
    match frame {
        Some(Ok(Message::Text(text))) => IncomingFrame::Text(text.as_str()),
        Some(Ok(Message::Binary(_))) => IncomingFrame::Binary,
        Some(Ok(Message::Close(Some(frame)))) => {
            closed_frame(frame.code.into(), frame.reason.as_str())
        }
        Some(Ok(Message::Close(None))) => closed_frame(NO_STATUS, ""),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => IncomingFrame::Other,
        Some(Err(error)) => violation_frame(error, limits),
        None => closed_frame(ABNORMAL_CLOSURE, ""),
    }
}

fn closed_frame(code: u16, reason: &str) -> IncomingFrame<'static> {
    let message = format!("Peer closed WebSocket: {code} {reason}");
    IncomingFrame::Closed(match code {
        MESSAGE_TOO_BIG => RpcError::with_code(TOO_LARGE_CODE, message),
        _ => RpcError::new("Error", message),
    })
}

fn violation_frame(error: &Error, limits: &WireLimits) -> IncomingFrame<'static> {
    if let Error::Capacity(CapacityError::MessageTooLong { .. }) = error {
        let reported = DecodeError::TooLong(limits.message_bytes).to_string();
        return IncomingFrame::ProtocolViolation(
            MESSAGE_TOO_BIG,
            RpcError::with_code(TOO_LARGE_CODE, reported),
        );
    }
    if let Error::Utf8(_) = error {
        let reported = "a text frame is not valid UTF-8";
        return IncomingFrame::ProtocolViolation(
            INVALID_TEXT,
            RpcError::with_code("protocol", reported),
        );
    }
    if let Error::Protocol(what) = error
        && !matches!(what, ProtocolError::ResetWithoutClosingHandshake)
    {
        return IncomingFrame::ProtocolViolation(
            PROTOCOL_ERROR,
            RpcError::with_code("protocol", what.to_string()),
        );
    }
    closed_frame(ABNORMAL_CLOSURE, "")
}

/// Makes the frame that ends a session for that reason.
pub(super) fn close_frame(broken: Option<u16>, reason: Option<&RpcError>) -> Message {
    let code = broken.unwrap_or_else(|| match reason.and_then(RpcError::code) {
        Some("age") => CLOSED_NORMALLY,
        Some("slow") => POLICY_VIOLATION,
        _ => CLOSE_NPM,
    });
    let reason = truncate_reason(reason.map_or("", |error| error.message.as_str()));
    Message::Close(Some(CloseFrame { code: code.into(), reason: Utf8Bytes::from(reason) }))
}

/// Sets the library up for those limits.
pub(super) fn ws_config(limits: &WireLimits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
}

/// Cuts a reason to what a close frame holds, on a character boundary.
fn truncate_reason(message: &str) -> &str {
    const MOST: usize = 123;
    &message[..message.floor_char_boundary(MOST)]
}

#[cfg(test)]
mod tests {
    use super::truncate_reason;

    #[test]
    fn close_reason_is_cut_at_char_boundary() {
        assert_eq!(truncate_reason("short"), "short");
        assert_eq!(truncate_reason(&"ü".repeat(100)).len(), 122);
        assert_eq!(truncate_reason(&"x".repeat(200)).len(), 123);
    }
}
