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
pub fn choose_rounds(seed: u64, usual: u64) -> u64 {
    choose_rounds_with_seed(seed, usual, usual * LONG_RUN_FACTOR)
}

/// The number of rounds of a campaign that names both counts itself.
#[must_use]
#[expect(clippy::print_stdout, reason = "the output of a test: what was run, and with which seed")]
pub fn choose_rounds_with_seed(seed: u64, usual: u64, long: u64) -> u64 {
    let rounds = pick_rounds(usual, long, is_long_run());
    println!("campaign: {rounds} rounds, seed {seed} ({LONG_RUN_VARIABLE}=1 runs {long})");
    rounds
}

/// True in a long run.
#[must_use]
pub fn is_long_run() -> bool {
    env::var_os(LONG_RUN_VARIABLE).is_some_and(|value| value == "1")
}

const fn pick_rounds(usual: u64, long: u64, is_long: bool) -> u64 {
    if is_long { long } else { usual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_run_has_the_full_count() {
        assert_eq!((pick_rounds(12, 60, false), pick_rounds(12, 60, true)), (12, 60));
    }
}
