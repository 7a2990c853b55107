//! How long to wait for another process. Never stored, and no time of day.

use std::time::{Duration, Instant};

use rustix::event::Timespec;

/// A moment after which waiting stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// A moment that never comes.
    pub(crate) const NEVER: Self = Self(None);

    pub(crate) fn after(wait: Duration) -> Self {
        Self(now().checked_add(wait))
    }

    /// What is left until then; `None` if it never comes.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(now()))
    }

    pub(crate) fn is_over(self) -> bool {
        self.remaining().is_some_and(|left| left.is_zero())
    }

    /// The one of two that comes first.
    pub(crate) fn or_earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(two)) => Self(Some(one.min(two))),
            (one, two) => Self(one.or(two)),
        }
    }

    /// The remaining time for `poll`: at least a millisecond, so that no loop spins.
    pub(crate) fn timespec(self) -> Option<Timespec> {
        let left = self.remaining()?.max(Duration::from_millis(1));
        Some(Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the patience with a child, not a time of day")]
fn now() -> Instant {
    Instant::now()
}
