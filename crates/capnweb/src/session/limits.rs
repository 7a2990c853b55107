//! How much one session may cost, and how it talks.

use std::time::Duration;

use crate::wire::{Profile, WireLimits};

/// What one peer may make a session hold or do. A peer that goes beyond is cut off.
#[derive(Clone, Debug)]
pub struct SessionLimits {
    /// Limits of a single message.
    pub wire: WireLimits,
    /// Bytes of one batch, or of the answer to one.
    pub batch_bytes: usize,
    /// Messages in one batch.
    pub batch_messages: usize,
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
    /// Values that promises may put into the arguments of one call or one result.
    pub substituted_values: usize,
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
            batch_bytes: 8 * 1024 * 1024,
            batch_messages: 1_000,
            exports: 10_000,
            imports: 10_000,
            pending_pulls: 1_000,
            running_calls: 10_000,
            map_steps: 10_000,
            substituted_values: 100_000,
            streams: 1_000,
            blob_bytes: 8 * 1024 * 1024,
            stream_window: 16 * 1024 * 1024,
            age: None,
        }
    }
}

/// How a session is set up.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the peer may cost.
    pub limits: SessionLimits,
    /// Which forms the peer understands.
    pub profile: Profile,
    /// Stands before the number of every incident; choose it unique per session.
    pub incident_prefix: String,
}
