//! The one trait that every wire implements.

use super::{ModelError, ModelEvent, ModelRequest};

/// Receives the events of one answer, in order, on a thread of the provider. The last item is either
/// `ModelEvent::Finished` or an error, unless the call was dropped before.
pub type ModelEventSink = Box<dyn FnMut(Result<ModelEvent, ModelError>) + Send>;

/// Carries requests to the models of one provider.
pub trait Provider: Send + Sync {
    /// Starts a request and returns at once; the answer goes to `sink`.
    fn start(&self, request: ModelRequest, sink: ModelEventSink) -> ModelCall;
}

/// A request under way. Dropping it cancels the request: the connection is closed, and the sink
/// receives no further event once `drop` has returned.
pub struct ModelCall {
    cancel: Option<Box<dyn FnOnce() + Send>>,
}

impl ModelCall {
    /// Returns a call that `cancel` ends.
    #[must_use]
    pub fn new(cancel: Box<dyn FnOnce() + Send>) -> Self {
        Self { cancel: Some(cancel) }
    }
}

impl Drop for ModelCall {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel();
        }
    }
}
