//! Todos and the status a session shows.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::ExtraFields;

/// One line of a session's to-do list; the words are free text, as in OpenCode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress`, `completed`, `cancelled` or any other word.
    pub status: String,
    /// `high`, `medium`, `low` or any other word.
    pub priority: String,
    /// Fields this version does not know, such as the `id` of older stores.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// What a session is doing, derived from its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SessionStatus {
    /// Nothing runs.
    Idle,
    /// A turn runs or waits.
    Busy,
    /// A turn waits for the next attempt.
    Retry {
        /// How many attempts failed.
        attempt: Number,
        /// What went wrong.
        message: String,
        /// When the next attempt begins.
        next: Number,
        /// What a person could do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<Value>,
    },
}
