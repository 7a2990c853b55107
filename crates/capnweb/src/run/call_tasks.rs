//! The calls under way: each is polled only when it was woken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::error::CallFailure;
use crate::id_hash::IdMap;
use crate::session::{CallId, ReplyFuture};
use crate::value::Value;

/// Calls that were woken, and who runs them.
#[derive(Default)]
struct WokenCalls {
    inner: Mutex<(Vec<CallId>, Option<Waker>)>,
}

impl WokenCalls {
    fn push(&self, call: CallId) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.push(call);
        let waker = inner.1.take();
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
    }

    fn take(&self, waker: &Waker) -> Vec<CallId> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.1 = Some(waker.clone());
        std::mem::take(&mut inner.0)
    }
}

struct CallWaker {
    call: CallId,
    ready: Arc<WokenCalls>,
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.call);
    }
}

#[derive(Default)]
pub(super) struct CallTasks {
    futures: IdMap<CallId, (ReplyFuture, Waker)>,
    ready: Arc<WokenCalls>,
}

impl CallTasks {
    /// Polls a call for the first time; it is kept if it is not done.
    pub(super) fn start(
        &mut self,
        call: CallId,
        future: ReplyFuture,
    ) -> Option<Result<Value, CallFailure>> {
        let ready = Arc::clone(&self.ready);
        let waker = Waker::from(Arc::new(CallWaker { call, ready }));
        self.futures.insert(call, (future, waker));
        self.poll_call(call)
    }

    /// Polls the calls that were woken since; the task is woken when more are.
    pub(super) fn poll(&mut self, waker: &Waker) -> Vec<(CallId, Result<Value, CallFailure>)> {
        let woken = self.ready.take(waker);
        let done = woken.into_iter().filter_map(|call| Some((call, self.poll_call(call)?)));
        done.collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.futures.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.futures.clear();
    }

    fn poll_call(&mut self, call: CallId) -> Option<Result<Value, CallFailure>> {
        let (future, waker) = self.futures.get_mut(&call)?;
        let mut context = Context::from_waker(waker);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        let result = match polled {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(result)) => result,
            Err(_) => Err(CallFailure::internal("a method panicked")),
        };
        self.futures.remove(&call);
        Some(result)
    }
}
