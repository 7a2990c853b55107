//! The thread that follows the log.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnstone_core::id::Ticker;

use super::hub::Shared;

/// How often the thread looks whether anybody is left.
const SLICE: Duration = Duration::from_millis(250);
/// Slices after which the log is read without a wake.
const SAFETY: u32 = 4;

/// Reads the log from where the ring ends.
#[derive(Default)]
pub(super) struct Follower {
    /// Makes names for what is in no log.
    pub(super) ticker: Ticker,
    projects: HashMap<String, Arc<str>>,
}

impl Follower {
    /// Reads on; returns true if there was something.
    pub(super) fn drain(&mut self, shared: &Shared) -> turnstone_store::Result<bool> {
        let end = shared.ring(super::ring::Ring::end);
        Ok(end < turnstone_core::time::Cursor(0))
    }

    /// The project of a directory, as far as the log told.
    pub(super) fn project_of(&self, directory: &str) -> Option<Arc<str>> {
        self.projects.get(directory).cloned()
    }
}

/// Starts the thread; it ends when the hub is closed or gone.
pub(super) fn start(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    let thread = std::thread::Builder::new().name("turnstone-events".to_owned());
    if let Err(error) = thread.spawn(move || follow(&weak)) {
        tracing::error!("nobody follows the log: {error}");
    }
}

fn follow(weak: &Weak<Shared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let watch = shared.engine.store().watch().clone();
        // Taken before the log is read, so that nothing is missed in between.
        let mark = watch.mark();
        match shared.follow() {
            None => return,
            Some(Ok(true)) => continue,
            Some(Ok(false)) => {}
            Some(Err(error)) => {
                tracing::error!("the log cannot be followed: {error}");
                std::thread::sleep(SLICE);
            }
        }
        drop(shared);
        for _ in 0..SAFETY {
            if watch.wait(mark, SLICE) || weak.strong_count() == 0 {
                break;
            }
        }
    }
}
