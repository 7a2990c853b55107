//! Why a server of tools is of no use. No error contains a variable, a header or a query of an address.

use std::time::Duration;

/// Why a server of tools is of no use, or a call has no result. Texts of servers are bounded and clean.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolServerError {
    /// The server is switched off.
    #[error("the server is disabled")]
    Disabled,
    /// The program could not be started, or the server could not be reached.
    #[error("{reason}")]
    Unavailable {
        /// What happened.
        reason: String,
    },
    /// The server wants to know who asks.
    #[error("the server wants an authorization; set a header with a token in its configuration")]
    NeedsAuthorization,
    /// The server failed before, and it is not yet time to try again.
    #[error("{reason} (the next attempt is in {} s)", retry_after.as_secs().max(1))]
    Waiting {
        /// What happened before.
        reason: String,
        /// When it will be tried again.
        retry_after: Duration,
    },
    /// The connection ended.
    #[error("the connection to the server ended: {reason}")]
    Closed {
        /// What is known of the reason.
        reason: String,
    },
    /// The server took too long.
    #[error("the server did not answer within {} s", limit.as_secs_f32())]
    Timeout {
        /// How long it had.
        limit: Duration,
    },
    /// The caller gave up.
    #[error("the call was cancelled")]
    Cancelled,
    /// The server answered with an error of the protocol.
    #[error("the server refused: {message}")]
    Refused {
        /// What it says.
        message: String,
    },
    /// The answer is not one that the protocol knows, or is beyond a limit.
    #[error("the answer of the server cannot be used: {reason}")]
    InvalidAnswer {
        /// What is wrong with it.
        reason: String,
    },
}

impl ToolServerError {
    /// Returns an error of a server that cannot be reached.
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }
}
