//! One size: its worktrees, both sides, and how often things are measured.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::git_process::TimeLimitExceeded;
use super::opencode_git::OpenCodeGit;
use super::operation_timings::OperationTimings;
use crate::Fallible;
use crate::measurement::to_millis;

/// An index entry written within a second of its file is racy: git reads the file again.
const RACY_INTERVAL: Duration = Duration::from_millis(1100);
/// From so many files on the peer's slow operations are run once.
const SLOW_PEER_FILES: usize = 50_000;

/// One size and its settings.
pub(crate) struct BenchmarkCase {
    pub(crate) files: usize,
    pub(crate) rounds: usize,
    /// How long a command of the peer may take.
    pub(crate) limit: Duration,
    pub(crate) dir: PathBuf,
}

impl BenchmarkCase {
    /// Rounds of what takes the peer minutes.
    pub(crate) fn slow_rounds(&self) -> usize {
        if self.files >= SLOW_PEER_FILES { 1 } else { self.rounds.min(3) }
    }

    /// A snapshot repository of the peer.
    pub(crate) fn open_peer(&self, name: &str, tree: &Path) -> OpenCodeGit {
        OpenCodeGit::new(&self.dir.join(name), tree, self.limit)
    }

    /// Waits until nothing that was written is racy any more, for either side.
    pub(crate) fn wait_until_not_racy(&self) {
        std::thread::sleep(RACY_INTERVAL);
    }
}

/// Runs something and says how many milliseconds it took.
pub(crate) fn measure_millis<T>(work: impl FnOnce() -> Fallible<T>) -> Fallible<(f64, T)> {
    let begun = Instant::now();
    let done = work()?;
    Ok((to_millis(begun.elapsed()), done))
}

/// Measures the peer; one that is stopped at the limit answers nothing.
pub(crate) fn time_peer<T>(
    row: &mut OperationTimings,
    peer: &OpenCodeGit,
    work: impl FnOnce(&OpenCodeGit) -> Fallible<T>,
) -> Fallible<Option<T>> {
    peer.take_spawned();
    let begun = Instant::now();
    let done = work(peer);
    row.peer.push(to_millis(begun.elapsed()));
    row.peer_processes = peer.take_spawned();
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is::<TimeLimitExceeded>() => {
            row.peer_stopped = true;
            peer.unlock()?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The bytes that a folder takes on disk.
pub(crate) fn disk_usage(folder: &Path) -> Fallible<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        sum += meta.blocks() * 512;
        if meta.is_dir() {
            sum += disk_usage(&entry.path())?;
        }
    }
    Ok(sum)
}
