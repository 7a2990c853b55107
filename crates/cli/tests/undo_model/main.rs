//! Undo over the command line against a model: two agents and a person in random order, with modes,
//! directories, moves, filtered undos, full disks, saves in progress and kills (R1–R6, R17–R19).
//!
//! After every step the whole project is compared with the model: bytes, permission bits, directories.

mod edit;
mod model;
mod report;
mod round;
mod scenarios;
mod tree;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use turnstone_testkit::small_disk::SmallDisk;
use turnstone_testkit::test_rounds;

/// The first seed; each round has the next one.
const SEED: u64 = 15_000;
const ROUNDS: u64 = 10;
const LONG_ROUNDS: u64 = 2_000;
/// Many rounds are played by several workers at once.
const ROUNDS_PER_WORKER: u64 = 20;
const MAX_WORKERS: u64 = 4;

#[test]
fn undo_matches_the_model() {
    // Where disks can be mounted only in a namespace, all rounds have run in there.
    let Some(_probe) = SmallDisk::mount(64).expect("a small disk") else { return };
    let rounds = test_rounds::choose_rounds_with_seed(SEED, ROUNDS, LONG_ROUNDS);
    let next = AtomicU64::new(SEED);
    let workers = rounds.div_ceil(ROUNDS_PER_WORKER).min(MAX_WORKERS);
    let play = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEED + rounds {
                return;
            }
            if let Err(error) = round::run(seed) {
                panic!("seed {seed}: {error}");
            }
        }
    };
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(play))));
}
