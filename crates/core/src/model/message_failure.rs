//! Errors of messages: a name and its data.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ExtraFields;

/// Why an assistant message failed, in OpenCode's `{name, data}` form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageFailure {
    /// Which error it is.
    pub name: MessageFailureKind,
    /// What is known of it; the fields depend on the name.
    #[serde(default)]
    pub data: Value,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The errors OpenCode's clients know; any other name is carried as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageFailureKind {
    /// The provider refused the credentials: `providerID`, `message`.
    ProviderAuthError,
    /// Anything else: `message`, perhaps `ref`.
    UnknownError,
    /// The answer hit the output limit.
    MessageOutputLengthError,
    /// The turn was aborted: `message`.
    MessageAbortedError,
    /// The structured answer did not fit its schema: `message`, `retries`.
    StructuredOutputError,
    /// The context is full: `message`, perhaps `responseBody`.
    ContextOverflowError,
    /// The provider filtered the content: `message`.
    ContentFilterError,
    /// The provider answered an error: `message`, `isRetryable` and more.
    #[serde(rename = "APIError")]
    Api,
    /// A name this version does not know.
    #[serde(untagged)]
    Other(String),
}

impl MessageFailure {
    /// A failure with a message.
    #[must_use]
    pub fn new(name: MessageFailureKind, message: &str) -> Self {
        Self { name, data: serde_json::json!({ "message": message }), extra: ExtraFields::new() }
    }
}
