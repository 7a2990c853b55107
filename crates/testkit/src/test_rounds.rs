//! How many rounds a campaign of kills, cuts or random plays has: one setting for all of them.
//!
//! The default is small, so that the test command stays quick; `scripts/test --long` sets
//! [`LONG_RUN_VARIABLE`] and runs the full counts. What is run is printed, with the seed.

use std::env;

/// The variable that asks for the full counts.
pub const LONG_RUN_VARIABLE: &str = "TURNSTONE_TEST_LONG";

/// How much longer a long campaign is.
const LONG_RUN_FACTOR: u64 = 5;

/// The number of rounds of a campaign: `usual`, or five times as many in a long run.
///
/// Prints the number and the seed, so that a failure can be repeated.
#[must_use]
#[expect(clippy::print_stdout, reason = "the output of a test: what was run, and with which seed")]
pub fn choose_rounds(seed: u64, usual: u64) -> u64 {
    let rounds = scale_rounds(usual, is_long_run());
    println!(
        "campaign: {rounds} rounds, seed {seed} ({LONG_RUN_VARIABLE}=1 runs {})",
        usual * LONG_RUN_FACTOR
    );
    rounds
}

/// True in a long run.
#[must_use]
pub fn is_long_run() -> bool {
    env::var_os(LONG_RUN_VARIABLE).is_some_and(|value| value == "1")
}

const fn scale_rounds(usual: u64, is_long: bool) -> u64 {
    if is_long { usual * LONG_RUN_FACTOR } else { usual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_run_has_five_times_the_rounds() {
        assert_eq!((scale_rounds(12, false), scale_rounds(12, true)), (12, 60));
    }
}
