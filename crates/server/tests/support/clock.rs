//! A clock that a test can put forward, so that no test has to wait, or to be quick.

use std::sync::atomic::{AtomicI64, Ordering};

use turnstone_core::time::EpochMillis;

static AHEAD: AtomicI64 = AtomicI64::new(0);

/// The present moment of a server whose clock can be put forward.
#[expect(clippy::disallowed_methods, reason = "the server of a test lives in the present")]
pub(crate) fn adjustable_now() -> EpochMillis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(since.expect("after 1970").as_millis()).expect("a number");
    EpochMillis(now + AHEAD.load(Ordering::SeqCst))
}

/// Puts the clock so many milliseconds ahead of where it is.
pub(crate) fn advance_clock(millis: i64) {
    AHEAD.fetch_add(millis, Ordering::SeqCst);
}
