//! When an entry of the user's index proves what a file holds.

use crate::user_git::GitIndexEntry;
use crate::worktree::{FileKind, FileStat};

const SECOND: i64 = 1_000_000_000;
/// Grain of the kernel's file clock, generously; the same where times have no fraction.
const GRAIN: i64 = SECOND / 10;
const COARSE_GRAIN: i64 = 2 * SECOND + GRAIN;

/// True if git saw exactly this file, unchanged since, when it wrote the index at `written`.
///
/// Every number git keeps of a file must be equal, whatever `core.trustctime` or `core.checkStat` say.
pub(super) fn proves_unchanged(entry: &GitIndexEntry, stat: &FileStat, written: i64) -> bool {
    entry.is_normal()
        && has_same_kind(entry, stat.kind)
        && has_same_stat(entry, stat)
        && !is_racy(entry, written)
}

fn has_same_kind(entry: &GitIndexEntry, kind: FileKind) -> bool {
    match kind {
        FileKind::File => entry.mode & 0o170_000 == 0o100_000,
        FileKind::Link => entry.mode & 0o170_000 == 0o120_000,
        FileKind::Directory | FileKind::Special => false,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "git cuts these numbers to 32 bits")]
fn has_same_stat(entry: &GitIndexEntry, stat: &FileStat) -> bool {
    nanos(entry.mtime) == stat.mtime
        && nanos(entry.ctime) == stat.ctime
        && u64::from(entry.size) == stat.size
        && entry.ino == stat.ino as u32
        && entry.dev == stat.dev as u32
}

/// A file changed about when the index was written may have changed again without its times telling.
fn is_racy(entry: &GitIndexEntry, written: i64) -> bool {
    let whole = [nanos(entry.mtime), nanos(entry.ctime), written].iter().any(|it| it % SECOND == 0);
    let grain = if whole { COARSE_GRAIN } else { GRAIN };
    nanos(entry.mtime).max(nanos(entry.ctime)) >= written - grain
}

fn nanos((seconds, nanos): (u32, u32)) -> i64 {
    i64::from(seconds) * SECOND + i64::from(nanos)
}
