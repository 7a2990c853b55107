//! The time that waits are measured with.

use std::time::Instant;

/// Returns the present time.
#[expect(
    clippy::disallowed_methods,
    reason = "back-off, rates and idle connections are measured here"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
