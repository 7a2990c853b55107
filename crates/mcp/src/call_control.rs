//! Cancelling a call, and hearing of its progress.

use std::sync::Arc;

use tokio::sync::watch;

/// Cancels a call from another thread. Clones cancel the same call.
#[derive(Clone, Debug)]
pub struct CallControl {
    is_cancelled: Arc<watch::Sender<bool>>,
}

impl Default for CallControl {
    fn default() -> Self {
        Self { is_cancelled: Arc::new(watch::Sender::new(false)) }
    }
}

impl CallControl {
    /// Cancels the call: the server is notified, and the caller returns at once.
    pub fn cancel(&self) {
        self.is_cancelled.send_replace(true);
    }

    /// True once the call is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.is_cancelled.borrow()
    }

    /// Waits until the call is cancelled.
    pub(crate) async fn cancelled(&self) {
        let mut changes = self.is_cancelled.subscribe();
        // The sender lives as long as `self`.
        drop(changes.wait_for(|it| *it).await);
    }
}

/// How far a call has come, in the server's words.
#[derive(Clone, Debug, PartialEq)]
pub struct CallProgress {
    /// How much is done.
    pub done: f64,
    /// How much there is, if the server knows.
    pub total: Option<f64>,
    /// What it does.
    pub message: Option<String>,
}
