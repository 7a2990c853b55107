//! Places for work that blocks a thread: a few at a time, a short queue, and an end when the client leaves.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for one kind of work; a copy is a handle.
#[derive(Clone, Debug)]
pub(crate) struct WorkPool {
    running: Arc<Semaphore>,
    admitted: Arc<Semaphore>,
}

/// A place in a pool. Keep it until the work has really ended, not only until the client has left.
#[derive(Debug)]
pub(crate) struct WorkPermit {
    _running: OwnedSemaphorePermit,
    _admitted: OwnedSemaphorePermit,
}

impl WorkPool {
    /// So many run, and so many more wait for a place.
    pub(crate) fn new(running: usize, waiting: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(running)),
            admitted: Arc::new(Semaphore::new(running.saturating_add(waiting))),
        }
    }

    /// Waits for a place without holding a thread; `None` if too many wait already.
    pub(crate) async fn acquire(&self) -> Option<WorkPermit> {
        let admitted = self.admitted.clone().try_acquire_owned().ok()?;
        let running = self.running.clone().acquire_owned().await.ok()?;
        Some(WorkPermit { _running: running, _admitted: admitted })
    }

    /// How many more are admitted right now.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.admitted.available_permits()
    }
}

/// Calls a function when the future that holds it is dropped: the client went away.
pub(crate) struct CancelOnDrop<F: Fn()>(pub(crate) F);

impl<F: Fn()> Drop for CancelOnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
