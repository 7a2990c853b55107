//! How many rounds a campaign of kills, cuts or random plays has: one setting for all of them.
//!
//! The default is small, so that the test command stays quick; `scripts/test --long` sets
//! [`LONG`] and runs the full counts. What is run is printed, with the seed.

use std::env;

/// The variable that asks for the full counts.
pub const LONG: &str = "TURNSTONE_TEST_LONG";

/// How much longer a long campaign is.
const FACTOR: u64 = 5;

/// The number of rounds of a campaign: `usual`, or five times as many in a long run.
///
/// Prints the number and the seed, so that a failure can be repeated.
#[must_use]
#[expect(clippy::print_stdout, reason = "the output of a test: what was run, and with which seed")]
pub fn rounds(seed: u64, usual: u64) -> u64 {
    let rounds = scaled(usual, is_long());
    println!("campaign: {rounds} rounds, seed {seed} ({LONG}=1 runs {})", usual * FACTOR);
    rounds
}

/// True in a long run.
#[must_use]
pub fn is_long() -> bool {
    env::var_os(LONG).is_some_and(|value| value == "1")
}

const fn scaled(usual: u64, is_long: bool) -> u64 {
    if is_long { usual * FACTOR } else { usual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_campaign_has_five_times_the_rounds() {
        assert_eq!((scaled(12, false), scaled(12, true)), (12, 60));
    }
}
