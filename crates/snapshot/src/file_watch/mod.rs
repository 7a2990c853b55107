//! The file watch: the kernel reports which names changed, so that captures skip the others (R8).
//!
//! Knows paths of folders and names in them, but not what they are. A hint: an audit must find what it
//! misses (writers through a mapping, writers through a name outside).

#[cfg(target_os = "linux")]
mod inotify;
mod journal_state;
// Tests compile it everywhere: otherwise it would break unnoticed on systems that we do not build for.
#[cfg(any(test, not(target_os = "linux")))]
mod unsupported;

#[cfg(target_os = "linux")]
pub(crate) use inotify::FileWatcher;
pub use journal_state::JournalState;
pub(crate) use journal_state::{DrainedEvents, NamesByFolder};
#[cfg(not(target_os = "linux"))]
pub(crate) use unsupported::FileWatcher;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::{DrainedEvents, JournalState, inotify, unsupported};
    use crate::worktree::{RootPolicy, Worktree, WorktreeDir};

    /// Checks that a watcher has all functions that captures call.
    macro_rules! check_watcher {
        ($watcher:ty) => {{
            let start: fn(&Worktree) -> Result<$watcher, JournalState> = <$watcher>::start;
            let watch: fn(&$watcher, &WorktreeDir, &[u8]) -> bool = <$watcher>::watch_folder;
            let ignore: fn(&$watcher, &WorktreeDir, &[u8]) = <$watcher>::watch_ignored_folder;
            let unwatch: fn(&$watcher, &[u8]) = <$watcher>::unwatch_folder;
            let drain: fn(&$watcher) -> DrainedEvents = <$watcher>::drain;
            let peek: fn(&$watcher, Duration) -> DrainedEvents = <$watcher>::peek;
            let lost: fn(&$watcher) -> Option<JournalState> = <$watcher>::lost_events;
            let count: fn(&$watcher) -> usize = <$watcher>::watched_count;
            (start, watch, ignore, unwatch, drain, peek, lost, count)
        }};
    }

    #[test]
    fn systems_without_inotify_have_a_watcher_that_cannot_start() {
        check_watcher!(inotify::FileWatcher);
        let (start, ..) = check_watcher!(unsupported::FileWatcher);
        let dir = tempfile::tempdir().expect("temp dir");
        let worktree = Worktree::open(dir.path(), &RootPolicy::default()).expect("opens");

        assert!(matches!(start(&worktree), Err(JournalState::Off)));
    }
}
