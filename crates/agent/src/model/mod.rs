//! Models: what is asked of one, what it answers, and the providers that carry both over a wire.

mod error;
mod event;
mod provider;
mod request;

pub use error::{ModelError, ModelErrorKind};
pub use event::{FinishReason, ModelEvent, ModelUsage};
pub use provider::{ModelCall, ModelEventSink, Provider};
pub use request::{ModelRequest, ToolChoice, ToolSchema};
