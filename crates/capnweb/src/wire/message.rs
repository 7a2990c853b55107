//! Messages: one JSON array each.

use super::encode::MessageWriter;
use super::{DecodeError, EncodeError, Expr, PeerVersion, WireLimits, decode};

/// One message of a session. Ids are those of the sender.
#[derive(Clone, Debug, PartialEq)]
pub enum WireMessage {
    /// `["push", expr]`: evaluate; the result is the sender's next positive id.
    Push(Expr),
    /// `["pull", id]`: send how that export settles.
    Pull(i64),
    /// `["resolve", id, expr]`
    Resolve(i64, Expr),
    /// `["reject", id, expr]`
    Reject(i64, Expr),
    /// `["release", id, count]`: so many introductions are given back.
    Release(i64, u64),
    /// `["stream", expr]`: a push that is pulled and released by itself.
    Stream(Expr),
    /// `["pipe"]`: make a stream; its writable end is the sender's next positive id.
    Pipe,
    /// `["abort", reason]`: the session is over.
    Abort(Expr),
}

impl WireMessage {
    /// Reads one message.
    ///
    /// # Errors
    ///
    /// [`DecodeError`]; the session that gets one is over.
    pub fn decode(text: &str, limits: &WireLimits) -> Result<Self, DecodeError> {
        decode::decode_message(text, limits)
    }

    /// Prints the message as npm prints it.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the peer of that profile would not understand it or refuse it.
    pub fn encode(&self, profile: PeerVersion, limits: &WireLimits) -> Result<String, EncodeError> {
        let mut text = String::with_capacity(64);
        self.encode_into(profile, limits, usize::MAX, &mut text)?;
        Ok(text)
    }

    /// Prints the message, of at most `most` bytes, in place of what `text` holds.
    pub(crate) fn encode_into(
        &self,
        profile: PeerVersion,
        limits: &WireLimits,
        most: usize,
        text: &mut String,
    ) -> Result<(), EncodeError> {
        text.clear();
        MessageWriter::new(profile, limits, most, text).message(self)
    }
}
