//! One size: its worktrees, both sides, and how often things are measured.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::peer::Peer;
use super::process::Overrun;
use super::row::Row;
use crate::Fallible;
use crate::table::ms;

/// An index entry written within a second of its file is racy: git reads the file again.
const RACY: Duration = Duration::from_millis(1100);
/// From so many files on the peer's slow operations are run once.
const MANY: usize = 50_000;

/// One size and its settings.
pub(crate) struct Case {
    pub(crate) files: usize,
    pub(crate) rounds: usize,
    /// How long a command of the peer may take.
    pub(crate) limit: Duration,
    pub(crate) dir: PathBuf,
}

impl Case {
    /// Rounds of what takes the peer minutes.
    pub(crate) fn slow_rounds(&self) -> usize {
        if self.files >= MANY { 1 } else { self.rounds.min(3) }
    }

    /// A shadow repository of the peer.
    pub(crate) fn peer(&self, name: &str, tree: &Path) -> Peer {
        Peer::new(&self.dir.join(name), tree, self.limit)
    }

    /// Waits until nothing that was written is racy any more, for either side.
    pub(crate) fn settle(&self) {
        std::thread::sleep(RACY);
    }
}

/// Runs something and says how many milliseconds it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> Fallible<T>) -> Fallible<(f64, T)> {
    let begun = Instant::now();
    let done = work()?;
    Ok((ms(begun.elapsed()), done))
}

/// Measures the peer; one that is stopped at the limit answers nothing.
pub(crate) fn time_peer<T>(
    row: &mut Row,
    peer: &Peer,
    work: impl FnOnce(&Peer) -> Fallible<T>,
) -> Fallible<Option<T>> {
    peer.take_spawned();
    let begun = Instant::now();
    let done = work(peer);
    row.peer.push(ms(begun.elapsed()));
    row.spawned = peer.take_spawned();
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is::<Overrun>() => {
            row.stopped = true;
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
