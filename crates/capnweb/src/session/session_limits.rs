//! How much one session may cost, and how it talks.

use std::time::Duration;

use crate::wire::{PeerVersion, WireLimits};

const MIB: usize = 1024 * 1024;

/// What one peer may make a session hold or do. A peer that goes beyond is cut off.
///
/// npm limits neither calls nor batches. So the defaults for their number only stop what is absurd, and
/// `held_bytes` bounds what they take together: about 100,000 small calls at the same time.
#[derive(Clone, Debug)]
pub struct SessionLimits {
    /// Limits of a single message.
    pub wire: WireLimits,
    /// Bytes of one batch, or of the answer to one.
    pub batch_bytes: usize,
    /// Messages in one batch.
    pub batch_messages: usize,
    /// Bytes held for the peer: values that it pushed or was promised, arguments of calls under way,
    /// chunks that are not read yet, and something for every entry of a table.
    pub held_bytes: usize,
    /// Bytes of answers that wait to be sent before nothing more is read from the peer.
    pub pause_bytes: usize,
    /// Bytes of messages that wait to be sent, at most. Calls beyond fail; a peer that takes no answers
    /// is cut off.
    pub outgoing_bytes: usize,
    /// Entries of the table of exports.
    pub exports: usize,
    /// Entries of the table of imports.
    pub imports: usize,
    /// Results the peer waits for at the same time, stream writes included.
    pub pending_pulls: usize,
    /// Calls under way, whether the peer waits for them or not.
    pub running_calls: usize,
    /// Elements times instructions of one map, the maps inside included.
    pub map_steps: usize,
    /// Bytes that one map copies, the maps inside included: inputs, literals and what it reads.
    pub map_bytes: usize,
    /// Values that promises may put into the arguments of one call or one result.
    pub substituted_values: usize,
    /// Bytes that promises may put into the arguments of one call or one result.
    pub substituted_bytes: usize,
    /// Streams of the peer that are open at the same time.
    pub streams: usize,
    /// Bytes of one blob.
    pub blob_bytes: usize,
    /// Bytes sent into one stream ahead of the peer's answers, at most. Within it the window follows
    /// what the connection carries: it starts at 256 KiB and is never less than 64 KiB.
    pub stream_window: usize,
    /// How long the session may last; then it is closed in the normal way.
    pub age: Option<Duration>,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            wire: WireLimits::default(),
            batch_bytes: 64 * MIB,
            batch_messages: 1_000_000,
            held_bytes: 128 * MIB,
            pause_bytes: 4 * MIB,
            outgoing_bytes: 64 * MIB,
            exports: 1_000_000,
            imports: 1_000_000,
            pending_pulls: 1_000_000,
            running_calls: 1_000_000,
            map_steps: 10_000,
            map_bytes: 32 * MIB,
            substituted_values: 100_000,
            substituted_bytes: 32 * MIB,
            streams: 1_000,
            blob_bytes: 8 * MIB,
            stream_window: 16 * MIB,
            age: None,
        }
    }
}

/// How a session is set up.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// What the peer may cost.
    pub limits: SessionLimits,
    /// Which forms the peer understands.
    pub profile: PeerVersion,
    /// The prefix of every incident number; choose it unique per session.
    pub incident_prefix: String,
}
