//! The answer a future of the application waits for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::promise_cell::PromiseOutcome;
use super::work_queue::disconnected_error;

#[derive(Default)]
struct OneshotState {
    outcome: Option<PromiseOutcome>,
    waker: Option<Waker>,
}

/// The end that answers; dropping it unanswered answers that the session is over.
pub(crate) struct OneshotSender(Arc<Mutex<OneshotState>>);

/// The end that waits.
pub(crate) struct OneshotReceiver(Arc<Mutex<OneshotState>>);

pub(crate) fn oneshot() -> (OneshotSender, OneshotReceiver) {
    let inner = Arc::<Mutex<OneshotState>>::default();
    (OneshotSender(Arc::clone(&inner)), OneshotReceiver(inner))
}

impl OneshotSender {
    pub(crate) fn send(self, outcome: PromiseOutcome) {
        self.set(outcome);
    }

    fn set(&self, outcome: PromiseOutcome) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.outcome.is_some() {
            return;
        }
        inner.outcome = Some(outcome);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for OneshotSender {
    fn drop(&mut self) {
        // Taken already when it was given: then this changes nothing.
        if Arc::strong_count(&self.0) > 1 {
            self.set(Err(disconnected_error()));
        }
    }
}

impl Future for OneshotReceiver {
    type Output = PromiseOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<PromiseOutcome> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
