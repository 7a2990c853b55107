//! The answer a future of the application waits for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::cell::Outcome;
use super::work::gone;

#[derive(Default)]
struct Inner {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// The end that answers; dropping it unanswered answers that the session is over.
pub(crate) struct Answer(Arc<Mutex<Inner>>);

/// The end that waits.
pub(crate) struct Answered(Arc<Mutex<Inner>>);

pub(crate) fn answer() -> (Answer, Answered) {
    let inner = Arc::<Mutex<Inner>>::default();
    (Answer(Arc::clone(&inner)), Answered(inner))
}

impl Answer {
    pub(crate) fn give(self, outcome: Outcome) {
        self.set(outcome);
    }

    fn set(&self, outcome: Outcome) {
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

impl Drop for Answer {
    fn drop(&mut self) {
        // Taken already when it was given: then this changes nothing.
        if Arc::strong_count(&self.0) > 1 {
            self.set(Err(gone()));
        }
    }
}

impl Future for Answered {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
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
