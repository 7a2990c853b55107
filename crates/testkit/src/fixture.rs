//! Deterministic inputs for tests: a clock that is set, ids that are counted, a seeded
//! generator of numbers, and a data directory that removes itself.

use std::{
    io,
    ops::RangeInclusive,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use tempfile::TempDir;

/// A clock in milliseconds that moves only when a test moves it; clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: Arc<AtomicI64>,
}

impl ManualClock {
    /// 2026-01-01 00:00:00 UTC, where a clock starts by default.
    pub const START: i64 = 1_767_225_600_000;

    /// Creates a clock set to `ms` milliseconds since the epoch.
    #[must_use]
    pub fn at(ms: i64) -> Self {
        Self { now: Arc::new(AtomicI64::new(ms)) }
    }

    /// The time, without moving it.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }

    /// Moves the clock by `ms`, which may be negative, and returns the new time.
    pub fn advance(&self, ms: i64) -> i64 {
        self.now.fetch_add(ms, Ordering::SeqCst).wrapping_add(ms)
    }

    /// Moves the clock by one millisecond and returns the new time, so no two ticks are equal.
    pub fn tick(&self) -> i64 {
        self.advance(1)
    }

    /// Sets the clock, backwards too.
    pub fn set(&self, ms: i64) {
        self.now.store(ms, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::at(Self::START)
    }
}

/// The random part of ids, counted instead of drawn; clones share the count.
#[derive(Clone, Debug, Default)]
pub struct SequentialIds {
    next: Arc<AtomicU64>,
}

impl SequentialIds {
    /// Length of the random part, in characters and in bytes.
    pub const LEN: usize = 14;

    /// Starts at 1.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next 14 bytes, one decimal digit in each: an id minted of them ends in `00000000000001`.
    pub fn next_bytes(&self) -> [u8; Self::LEN] {
        let mut rest = self.count();
        let mut digits = [0; Self::LEN];
        for digit in digits.iter_mut().rev() {
            *digit = (rest % 10) as u8;
            rest /= 10;
        }
        digits
    }

    /// The next 14 characters: `00000000000001`, `00000000000002` and so on.
    pub fn next_text(&self) -> String {
        format!("{:014}", self.count())
    }

    fn count(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// A small seeded generator (splitmix64): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct SeededRng {
    state: u64,
}

impl SeededRng {
    /// Starts a sequence.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, any of 2^64.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        scale(self.next_u64(), bound)
    }

    /// A number of `range`, both ends included; the start if the range is empty.
    pub fn in_range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let width = range.end().saturating_sub(*range.start());
        if width == u64::MAX {
            return self.next_u64();
        }
        range.start() + self.below(width + 1)
    }

    /// One of `items`, or `None` if there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// A number below `bound` that depends on nothing but `key`.
pub(crate) fn keyed_number(key: [u64; 3], bound: u64) -> u64 {
    let hash = key.iter().fold(0, |hash, part| mix(hash ^ mix(part.wrapping_add(0x9e37_79b9))));
    scale(hash, bound)
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn scale(value: u64, bound: u64) -> u64 {
    ((u128::from(value) * u128::from(bound)) >> 64) as u64
}

/// An empty data directory (0700), removed with all it holds when dropped.
#[derive(Debug)]
pub struct TempDataDir {
    dir: TempDir,
    path: PathBuf,
}

impl TempDataDir {
    /// Makes the directory below the system's temporary directory.
    ///
    /// # Errors
    ///
    /// The directory cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::at(tempfile::Builder::new().prefix("turnstone-").tempdir()?)
    }

    /// Makes the directory in memory where the system has such a place.
    ///
    /// For tests that kill programs: what a killed program wrote stays, on a disk or not, and only
    /// on a disk they wait for it.
    ///
    /// # Errors
    ///
    /// The directory cannot be made.
    pub fn in_memory() -> io::Result<Self> {
        let in_memory = tempfile::Builder::new().prefix("turnstone-").tempdir_in("/dev/shm");
        in_memory.map_or_else(|_| Self::new(), Self::at)
    }

    fn at(dir: TempDir) -> io::Result<Self> {
        fs_err::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700))?;
        // Without links in it, so that it compares equal to what the kernel reports.
        let path = fs_err::canonicalize(dir.path())?;
        Ok(Self { dir, path })
    }

    /// The directory, absolute and free of symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path below the directory.
    #[must_use]
    pub fn join(&self, below: impl AsRef<Path>) -> PathBuf {
        self.path.join(below)
    }

    /// Keeps the directory, for inspection after a failed test.
    #[must_use]
    pub fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        let mut rng = SeededRng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_stay_within_their_range_and_reach_both_ends() {
        let mut rng = SeededRng::new(7);
        let drawn: Vec<u64> = (0..200).map(|_| rng.in_range(3..=5)).collect();
        assert!(drawn.iter().all(|n| (3..=5).contains(n)));
        assert!(drawn.contains(&3) && drawn.contains(&5));
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.choose::<u8>(&[]), None);
    }

    #[test]
    fn clones_of_a_clock_share_the_time() {
        let clock = ManualClock::default();
        let other = clock.clone();
        assert_eq!(clock.tick(), ManualClock::START + 1);
        other.advance(-11);
        assert_eq!(clock.now(), ManualClock::START - 10);
    }

    #[test]
    fn ids_are_counted_across_clones() {
        let ids = SequentialIds::new();
        assert_eq!(ids.clone().next_text(), "00000000000001");
        assert_eq!(ids.next_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn a_data_directory_is_private_and_removes_itself() {
        let data = TempDataDir::new().unwrap();
        let path = data.path().to_owned();
        fs_err::write(data.join("file"), "x").unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(data);
        assert!(!path.exists());
    }
}
