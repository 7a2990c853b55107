//! What a tool returns.

use serde_json::{Map, Value};

/// What a successful call returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolReply {
    /// A title for people.
    pub title: String,
    /// What the model reads.
    pub output: String,
    /// What clients render.
    pub metadata: Map<String, Value>,
    /// Files that the model receives with the output.
    pub attachments: Vec<ToolAttachment>,
}

impl ToolReply {
    /// Returns a reply without attachments.
    pub(crate) fn new(title: String, output: String, metadata: Value) -> Self {
        Self { title, output, metadata: into_fields(metadata), attachments: Vec::new() }
    }
}

/// Returns the fields of an object; none of anything else.
pub(crate) fn into_fields(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

/// A file that a tool returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAttachment {
    /// The media type.
    pub mime: String,
    /// The content as a `data:` URL.
    pub url: String,
    /// The name.
    pub filename: Option<String>,
}

/// Why a call returned nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The call failed; the model reads this and goes on.
    #[error("{message}")]
    Failed {
        /// What went wrong, and what to do instead.
        message: String,
        /// What clients render.
        metadata: Map<String, Value>,
    },
    /// A rule denies the call; the model reads this and goes on.
    #[error("{0}")]
    Denied(String),
    /// A person refused; the turn stops unless there is a message for the model.
    #[error("{0}")]
    Rejected(String),
    /// A person refused and says what to do instead; the model reads it and goes on.
    #[error("{0}")]
    Corrected(String),
    /// The turn was aborted.
    #[error("Tool execution aborted")]
    Aborted,
}

impl ToolError {
    /// Returns a failure without metadata.
    #[must_use]
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), metadata: Map::new() }
    }
}
