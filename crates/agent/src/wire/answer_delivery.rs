//! Delivers the events of one answer and guarantees that a cancelled call receives nothing more.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use crate::model::{ModelCall, ModelError, ModelErrorKind, ModelEvent, ModelEventSink};

/// The side of an answer that produces events. Clones deliver to the same sink.
#[derive(Clone)]
pub(super) struct AnswerDelivery {
    shared: Arc<SharedDelivery>,
}

struct SharedDelivery {
    /// Held while an event is delivered; empty once the call is cancelled or the answer has ended.
    sink: Mutex<Option<ModelEventSink>>,
    state: Mutex<DeliveryState>,
    cancelled: Condvar,
}

#[derive(Default)]
struct DeliveryState {
    is_cancelled: bool,
    /// The thread that is inside the sink now.
    delivering: Option<ThreadId>,
}

impl AnswerDelivery {
    /// Returns a delivery to `sink`.
    pub(super) fn new(sink: ModelEventSink) -> Self {
        let shared = SharedDelivery {
            sink: Mutex::new(Some(sink)),
            state: Mutex::default(),
            cancelled: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the call whose drop cancels this delivery; `stop` runs then too.
    pub(super) fn into_call(self, stop: impl FnOnce() + Send + 'static) -> ModelCall {
        ModelCall::new(Box::new(move || {
            self.cancel();
            stop();
        }))
    }

    /// Runs `produce` on a thread; if none can be started, the sink receives the error.
    pub(super) fn spawn(self, produce: impl FnOnce(&Self) + Send + 'static) {
        let delivery = self.clone();
        let thread = std::thread::Builder::new().name("model-answer".to_owned());
        if let Err(error) = thread.spawn(move || produce(&delivery)) {
            let message = format!("cannot start a thread for the answer: {error}");
            self.fail(ModelError::new(ModelErrorKind::Retryable, message));
        }
    }

    /// Delivers one event. Returns false if nobody receives it any more.
    pub(super) fn send(&self, event: ModelEvent) -> bool {
        let is_last = matches!(event, ModelEvent::Finished { .. });
        self.deliver(Ok(event), is_last)
    }

    /// Delivers the error that ends the answer.
    pub(super) fn fail(&self, error: ModelError) {
        self.deliver(Err(error), true);
    }

    /// Returns true once the call was dropped.
    pub(super) fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Waits for `time`, or until the call is dropped. Returns false if it was dropped.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let is_open = |state: &mut DeliveryState| !state.is_cancelled;
        let waited = self.shared.cancelled.wait_timeout_while(self.state(), time, is_open);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_cancelled
    }

    fn deliver(&self, item: Result<ModelEvent, ModelError>, is_last: bool) -> bool {
        let mut sink = lock(&self.shared.sink);
        let mut state = self.state();
        if state.is_cancelled {
            drop(state);
            *sink = None;
            return false;
        }
        let Some(receive) = sink.as_mut() else { return false };
        state.delivering = Some(std::thread::current().id());
        drop(state);
        receive(item);
        let mut state = self.state();
        state.delivering = None;
        let is_over = is_last || state.is_cancelled;
        drop(state);
        if is_over {
            *sink = None;
        }
        !is_over
    }

    fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        // A sink may drop its own call: then this thread holds the lock of the sink already.
        let is_inside_sink = state.delivering == Some(std::thread::current().id());
        drop(state);
        self.shared.cancelled.notify_all();
        if !is_inside_sink {
            *lock(&self.shared.sink) = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, DeliveryState> {
        lock(&self.shared.state)
    }
}

/// Locks `mutex`, also after a sink has panicked: what it guards is valid at any moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn delta(text: &str) -> ModelEvent {
        ModelEvent::TextDelta { id: "1".to_owned(), text: text.to_owned() }
    }

    fn open() -> (AnswerDelivery, Receiver<Result<ModelEvent, ModelError>>) {
        let (sender, receiver) = channel();
        let sink = Box::new(move |item| drop(sender.send(item)));
        (AnswerDelivery::new(sink), receiver)
    }

    #[test]
    fn dropped_call_receives_no_further_event() {
        let (delivery, receiver) = open();
        let call = delivery.clone().into_call(|| {});
        assert!(delivery.send(delta("a")));
        drop(call);
        assert!(!delivery.send(delta("b")));
        assert!(!delivery.wait(Duration::from_secs(600)));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [Ok(delta("a"))]);
    }

    #[test]
    fn nothing_follows_the_error_that_ends_an_answer() {
        let (delivery, receiver) = open();
        let error = ModelError::new(ModelErrorKind::Rejected, "no".to_owned());
        delivery.fail(error.clone());
        assert!(!delivery.send(delta("b")));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [Err(error)]);
    }

    #[test]
    fn a_sink_may_drop_its_own_call() {
        let held: Arc<Mutex<Option<ModelCall>>> = Arc::default();
        let (sender, receiver) = channel();
        let mine = Arc::clone(&held);
        let delivery = AnswerDelivery::new(Box::new(move |item| {
            drop(mine.lock().unwrap().take());
            drop(sender.send(item));
        }));
        *held.lock().unwrap() = Some(delivery.clone().into_call(|| {}));
        assert!(!delivery.send(delta("a")));
        assert!(!delivery.send(delta("b")));
        assert_eq!(receiver.iter().count(), 1);
    }

    #[test]
    fn dropping_a_call_waits_for_the_event_being_delivered() {
        let (entered, in_sink) = channel();
        let (release, released) = channel::<()>();
        let (sender, receiver) = channel();
        let delivery = AnswerDelivery::new(Box::new(move |item| {
            entered.send(()).unwrap();
            released.recv().unwrap();
            sender.send(item).unwrap();
        }));
        let call = delivery.clone().into_call(|| {});
        let sending = delivery.clone();
        let producer = std::thread::spawn(move || sending.send(delta("a")));
        in_sink.recv().unwrap();
        let dropper = std::thread::spawn(move || drop(call));
        while !delivery.is_cancelled() {
            std::thread::yield_now();
        }
        assert!(!dropper.is_finished());
        release.send(()).unwrap();
        dropper.join().unwrap();
        assert_eq!(receiver.try_iter().count(), 1);
        assert!(!producer.join().unwrap());
    }
}
