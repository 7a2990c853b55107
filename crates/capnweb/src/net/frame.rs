//! Frames of either WebSocket library.

/// What a frame of the peer's says.
pub(super) enum Incoming<'a> {
    Text(&'a str),
    /// Not usable: the protocol is text.
    Binary,
    Close(u16, &'a str),
    /// Pings and their answers.
    Other,
}

/// A frame of a WebSocket library.
pub(super) trait Frame {
    fn text(text: String) -> Self;
    fn ping() -> Self;
    fn close(code: u16, reason: String) -> Self;
    fn read(&self) -> Incoming<'_>;
}

/// What the peer is told when it closes without a code.
const NO_STATUS: u16 = 1005;

#[cfg(feature = "server")]
impl Frame for axum::extract::ws::Message {
    fn text(text: String) -> Self {
        Self::Text(text.into())
    }

    fn ping() -> Self {
        Self::Ping(Vec::new().into())
    }

    fn close(code: u16, reason: String) -> Self {
        let reason = reason.into();
        Self::Close(Some(axum::extract::ws::CloseFrame { code, reason }))
    }

    fn read(&self) -> Incoming<'_> {
        match self {
            Self::Text(text) => Incoming::Text(text.as_str()),
            Self::Binary(_) => Incoming::Binary,
            Self::Close(Some(frame)) => Incoming::Close(frame.code, frame.reason.as_str()),
            Self::Close(None) => Incoming::Close(NO_STATUS, ""),
            Self::Ping(_) | Self::Pong(_) => Incoming::Other,
        }
    }
}

#[cfg(feature = "client")]
impl Frame for tokio_tungstenite::tungstenite::Message {
    fn text(text: String) -> Self {
        Self::Text(text.into())
    }

    fn ping() -> Self {
        Self::Ping(Vec::new().into())
    }

    fn close(code: u16, reason: String) -> Self {
        use tokio_tungstenite::tungstenite::protocol::CloseFrame;

        let code = code.into();
        let reason = reason.into();
        Self::Close(Some(CloseFrame { code, reason }))
    }

    fn read(&self) -> Incoming<'_> {
        match self {
            Self::Text(text) => Incoming::Text(text.as_str()),
            Self::Binary(_) => Incoming::Binary,
            Self::Close(Some(frame)) => Incoming::Close(frame.code.into(), frame.reason.as_str()),
            Self::Close(None) => Incoming::Close(NO_STATUS, ""),
            Self::Ping(_) | Self::Pong(_) | Self::Frame(_) => Incoming::Other,
        }
    }
}

/// Cuts a reason to what a close frame holds, on a character boundary.
pub(super) fn close_reason(message: &str) -> String {
    const MOST: usize = 123;
    let end = (0..=MOST.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    message[..end.unwrap_or(0)].to_owned()
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
