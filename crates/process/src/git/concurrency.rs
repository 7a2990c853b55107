//! How many git commands run and wait at the same time, in one repository and in all.
//!
//! A command that hangs holds its thread until its limits end it. So one repository gets only a share of
//! the threads, and the others are served meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cancellation::Cancellations;
use super::error::GitError;
use crate::deadline::Deadline;

/// Commands that run at the same time in one repository.
const RUNNING: usize = 4;
/// Commands that run at the same time in all.
const RUNNING_IN_ALL: usize = 32;
/// Commands that run or wait in one repository.
const ADMITTED: usize = 128;
/// Commands that run or wait in all.
const ADMITTED_IN_ALL: usize = 320;

static USAGE: Mutex<Usage> = Mutex::new(Usage(BTreeMap::new()));
static FREED: Condvar = Condvar::new();

#[derive(Debug, Default)]
struct Usage(BTreeMap<PathBuf, Share>);

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    admitted: usize,
    running: usize,
}

impl Usage {
    /// The share of a repository, and that of all.
    fn shares(&self, repository: &Path) -> (Share, Share) {
        let own = self.0.get(repository).copied().unwrap_or_default();
        let all = self.0.values().fold(Share::default(), |all, one| Share {
            admitted: all.admitted + one.admitted,
            running: all.running + one.running,
        });
        (own, all)
    }

    fn has_room(&self, repository: &Path) -> bool {
        let (own, all) = self.shares(repository);
        own.admitted < ADMITTED && all.admitted < ADMITTED_IN_ALL
    }

    fn can_run(&self, repository: &Path) -> bool {
        let (own, all) = self.shares(repository);
        own.running < RUNNING && all.running < RUNNING_IN_ALL
    }

    fn change(&mut self, repository: &Path, change: impl FnOnce(&mut Share)) {
        let share = self.0.entry(repository.to_owned()).or_default();
        change(share);
        if share.admitted == 0 {
            self.0.remove(repository);
        }
    }
}

/// A place among the commands of a repository that run; given back when it is dropped.
#[derive(Debug)]
pub(super) struct CommandSlot {
    repository: PathBuf,
    is_running: bool,
}

impl CommandSlot {
    /// Waits for a place, but not longer than `patience`.
    ///
    /// # Errors
    ///
    /// [`GitError::Busy`] if too many wait already or it took too long, [`GitError::Cancelled`].
    pub(super) fn acquire(
        repository: &Path,
        patience: Duration,
        cancellations: &Cancellations,
        command: &str,
    ) -> Result<Self, GitError> {
        let deadline = Deadline::after(patience);
        let mut usage = usage();
        if !usage.has_room(repository) {
            return Err(GitError::Busy);
        }
        usage.change(repository, |share| share.admitted += 1);
        // Dropped after the lock on every path that fails: it takes the lock itself.
        let mut slot = Self { repository: repository.to_owned(), is_running: false };
        let refusal = loop {
            if cancellations.is_cancelled() {
                break GitError::Cancelled { command: command.to_owned() };
            }
            if usage.can_run(repository) {
                usage.change(repository, |share| share.running += 1);
                slot.is_running = true;
                return Ok(slot);
            }
            let left = deadline.remaining().unwrap_or(patience);
            if left.is_zero() {
                break GitError::Busy;
            }
            let waited = FREED.wait_timeout(usage, left);
            usage = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(usage);
        Err(refusal)
    }
}

impl Drop for CommandSlot {
    fn drop(&mut self) {
        let was_running = usize::from(self.is_running);
        usage().change(&self.repository, |share| {
            share.admitted -= 1;
            share.running -= was_running;
        });
        FREED.notify_all();
    }
}

/// Wakes every waiting command, to check whether it was cancelled.
pub(super) fn wake_waiting() {
    // Under the lock: a thread that has just checked is waiting by then.
    let _usage = usage();
    FREED.notify_all();
}

fn usage() -> MutexGuard<'static, Usage> {
    USAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::GitCancellation;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn acquire(repository: &str, patience: Duration) -> Result<CommandSlot, GitError> {
        CommandSlot::acquire(Path::new(repository), patience, &Cancellations::current(), "status")
    }

    #[test]
    fn one_repository_takes_its_share_only() {
        let busy: Vec<_> = (0..RUNNING).map(|_| acquire("/share/a", PATIENCE).unwrap()).collect();
        assert!(matches!(acquire("/share/a", Duration::ZERO), Err(GitError::Busy)));
        let other = acquire("/share/b", Duration::ZERO).unwrap();
        drop((busy, other));
        assert!(acquire("/share/a", Duration::ZERO).is_ok());
    }

    #[test]
    fn a_command_that_waits_is_cancelled_or_gets_the_next_place() {
        let mut busy: Vec<_> =
            (0..RUNNING).map(|_| acquire("/wait/a", PATIENCE).unwrap()).collect();
        let handle = GitCancellation::default();
        let waiting = {
            let handle = handle.clone();
            std::thread::spawn(move || handle.cover(|| acquire("/wait/a", PATIENCE).map(drop)))
        };
        handle.cancel();
        assert!(matches!(waiting.join().unwrap(), Err(GitError::Cancelled { .. })));
        let waiting = std::thread::spawn(|| acquire("/wait/a", PATIENCE).map(drop));
        busy.pop();
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn too_many_waiting_commands_are_refused() {
        let path = PathBuf::from("/full/a");
        usage().change(&path, |share| share.admitted = ADMITTED);
        assert!(matches!(acquire("/full/a", PATIENCE), Err(GitError::Busy)));
        usage().change(&path, |share| share.admitted = 0);
        assert!(acquire("/full/a", PATIENCE).is_ok());
    }
}
