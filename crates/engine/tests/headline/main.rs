//! The headline test: two agents and a person on one workspace, processes killed at random, a small
//! budget; undo undoes exactly its own turns (R1–R6, R11–R15, R17, R19, R45).
//!
//! To run it on more files: `cargo run --release --example headline -- play SEED STEPS FILES`.

mod model;
mod play;
mod world;

use std::path::Path;

use turnstone_testkit::test_rounds;

/// Plays a seed, and in a long run four more that no other test plays.
fn campaign(seed: u64) {
    (0..test_rounds::choose_rounds(seed, 1)).for_each(|round| run(seed + 3 * round));
}

fn run(seed: u64) {
    let test = std::env::current_exe().expect("a program");
    let folder = test.parent().and_then(Path::parent).expect("a target directory");
    match play::play(&folder.join("examples/headline"), seed, 160, 2000) {
        Ok(play) => {
            let counts = play.counts();
            assert!(counts["undone"] > 3 && counts["deaths"] > 2, "too quiet: {counts:?}");
            let expired = ["expired a", "expired b"].map(|who| counts.get(who).copied());
            let expired: u64 = expired.into_iter().flatten().sum();
            assert!(expired > 0, "the budget was never in the way: {counts:?}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn undo_is_exact_under_edits_and_crashes_seed_1() {
    campaign(1);
}

#[test]
fn undo_is_exact_under_edits_and_crashes_seed_2() {
    campaign(2);
}

#[test]
fn undo_is_exact_under_edits_and_crashes_seed_3() {
    campaign(3);
}
