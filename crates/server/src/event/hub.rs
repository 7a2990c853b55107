//! One reader of the log for all streams.

use std::sync::Arc;

use turnstone_core::time::Millis;
use turnstone_engine::Engine;

/// Hands what happens to whoever listens; a copy is a handle.
#[derive(Clone)]
pub(crate) struct Hub {
    engine: Arc<Engine>,
    clock: fn() -> Millis,
}

impl Hub {
    pub(crate) fn new(engine: Arc<Engine>, clock: fn() -> Millis) -> Self {
        Self { engine, clock }
    }

    /// Ends all streams: the server stops.
    pub(crate) fn close(&self) {}
}
