//! How much a peer may send, and which forms a peer understands.

/// What the codec refuses to read. Local policy: the protocol negotiates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// Bytes of one message.
    pub message_bytes: usize,
    /// JSON values in one message: each takes much more memory than its text.
    pub values: usize,
    /// Values within values, the arguments of calls included.
    pub depth: usize,
    /// Characters of a bigint; the sign counts.
    pub bigint_digits: usize,
}

impl Default for WireLimits {
    fn default() -> Self {
        // The sizes of npm, which counts UTF-16 units and no values.
        Self {
            message_bytes: 32 * 1024 * 1024,
            values: 1_000_000,
            depth: 256,
            bigint_digits: 16_384,
        }
    }
}

/// Which forms the peer knows. The protocol has no negotiation, so the application decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerVersion {
    /// npm `capnweb` 0.12: everything.
    #[default]
    Current,
    /// npm `capnweb` 0.4: no streams, fetch types, URLs, blobs or invalid dates; bytes untyped.
    V0_4,
}
