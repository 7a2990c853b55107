//! Ending git commands from another thread: those of one caller, or all of this program.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{concurrency, isolation};

/// Covers every command of this program.
static ALL: LazyLock<GitCancellation> = LazyLock::new(GitCancellation::default);

thread_local! {
    static CURRENT: RefCell<Option<GitCancellation>> = const { RefCell::new(None) };
}

/// Ends the git commands of one caller; a copy is a handle to the same.
#[derive(Clone, Debug, Default)]
pub struct GitCancellation(Arc<Mutex<Running>>);

#[derive(Debug, Default)]
struct Running {
    is_cancelled: bool,
    /// Process groups whose leaders have not been reaped: their numbers belong to no other process.
    groups: Vec<Pid>,
}

impl GitCancellation {
    /// Kills the commands that run, and lets no other begin.
    pub fn cancel(&self) {
        let mut running = self.running();
        running.is_cancelled = true;
        for group in &running.groups {
            kill_process_group(*group, Signal::KILL).ok();
        }
        drop(running);
        concurrency::wake_waiting();
    }

    /// True if it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.running().is_cancelled
    }

    /// Does `work`; this handle ends the git commands that it runs in this thread.
    pub fn cover<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Puts the outer one back, after a panic too.
        struct Restore(Option<GitCancellation>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        work()
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills every git command of this program, lets no other begin, and removes their temporary folders.
///
/// Call it when the program ends.
pub fn end_git_commands() {
    ALL.cancel();
    isolation::remove_folders();
}

/// Everything that may cancel a command of this thread.
#[derive(Debug)]
pub(super) struct Cancellations(Vec<GitCancellation>);

impl Cancellations {
    /// Those of the caller and of the program.
    pub(super) fn current() -> Self {
        let own = CURRENT.with_borrow(Clone::clone);
        Self(own.into_iter().chain([ALL.clone()]).collect())
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.iter().any(GitCancellation::is_cancelled)
    }

    /// Lets them kill a process group; one that is cancelled already does it now.
    pub(super) fn register(&self, group: Pid) {
        for one in &self.0 {
            let mut running = one.running();
            running.groups.push(group);
            if running.is_cancelled {
                kill_process_group(group, Signal::KILL).ok();
            }
        }
    }

    /// Ends that. Call it before the leader is reaped: afterwards its number may be another's.
    pub(super) fn unregister(&self, group: Pid) {
        for one in &self.0 {
            one.running().groups.retain(|one| *one != group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_below_a_handle_are_covered() {
        let (outer, inner) = (GitCancellation::default(), GitCancellation::default());
        inner.cancel();
        let covered = outer.cover(|| {
            let within = inner.cover(|| Cancellations::current().is_cancelled());
            (within, Cancellations::current().is_cancelled())
        });
        assert_eq!(covered, (true, false));
        let caught = std::panic::catch_unwind(|| inner.cover(|| panic!("on purpose")));
        assert!(caught.is_err() && !Cancellations::current().is_cancelled());
    }
}
