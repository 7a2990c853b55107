//! The clock: the only module that reads the system time.

use turnstone_core::time::EpochMillis;

/// The current time.
pub(crate) fn now() -> EpochMillis {
    #[expect(clippy::disallowed_methods, reason = "this is the only clock")]
    let now = std::time::SystemTime::now();
    match now.duration_since(std::time::UNIX_EPOCH) {
        Ok(since) => EpochMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        Err(before) => {
            EpochMillis(-i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX))
        }
    }
}
