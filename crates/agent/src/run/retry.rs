//! When a failed request is tried again.

use std::time::Duration;

use crate::model::ModelError;

/// How often a request is tried again.
pub(crate) const MAX_RETRIES: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_secs(2);
/// The longest wait that we choose.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// The longest wait that a provider may choose: timers take no more milliseconds.
const MAX_HINT: Duration = Duration::from_millis(i32::MAX as u64);

/// Returns how long to wait before attempt `attempt` (from 1) is repeated. `jitter` is between 0 and 1 and adds
/// up to a quarter, so that clients that failed together do not come back together.
pub(crate) fn retry_delay(error: &ModelError, attempt: u32, jitter: f64) -> Duration {
    if let Some(hint) = error.retry_after {
        return hint.min(MAX_HINT);
    }
    let doubled = FIRST_DELAY.saturating_mul(1 << attempt.saturating_sub(1).min(16));
    doubled.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 4.0).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelErrorKind;

    #[test]
    fn delays_double_up_to_thirty_seconds_and_hints_win() {
        let mut error = ModelError::new(ModelErrorKind::Retryable, "busy".to_owned());
        let delays: Vec<u64> = (1..=6).map(|it| retry_delay(&error, it, 0.0).as_secs()).collect();
        assert_eq!(delays, [2, 4, 8, 16, 30, 30]);
        assert_eq!(retry_delay(&error, 1, 1.0), Duration::from_millis(2_500));

        error.retry_after = Some(Duration::from_millis(1_500));
        assert_eq!(retry_delay(&error, 4, 1.0), Duration::from_millis(1_500));
        error.retry_after = Some(Duration::from_secs(1 << 40));
        assert_eq!(retry_delay(&error, 1, 0.0), MAX_HINT);
    }
}
