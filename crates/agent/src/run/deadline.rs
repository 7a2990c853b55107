//! A moment until which something is waited for.

use std::time::{Duration, Instant};

/// A moment until which something is waited for.
#[derive(Clone, Copy)]
pub(crate) struct WaitDeadline(Instant);

impl WaitDeadline {
    /// Returns the moment that is `limit` away.
    #[expect(clippy::disallowed_methods, reason = "a wait has an end, however the clock is set")]
    pub(crate) fn after(limit: Duration) -> Self {
        let now = Instant::now();
        // Hints of providers may be longer than any clock goes.
        Self(now.checked_add(limit).unwrap_or(now))
    }

    /// Returns how long there is until then.
    #[expect(clippy::disallowed_methods, reason = "a wait has an end, however the clock is set")]
    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
