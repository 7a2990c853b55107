//! Why a model gave no complete answer.

use std::time::Duration;

/// A failed request to a model. The message holds no key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What the loop does about it.
    pub kind: ModelErrorKind,
    /// What went wrong, in the provider's words where it gave any.
    pub message: String,
    /// The status of the HTTP response.
    pub status: Option<u16>,
    /// How long the provider asks to wait before the next try.
    pub retry_after: Option<Duration>,
    /// The body of the response, shortened.
    pub response_body: Option<String>,
    /// The headers of the response that say nothing secret.
    pub response_headers: Vec<(String, String)>,
    /// The address that was asked, without its query.
    pub url: Option<String>,
}

/// What the loop does about a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// Ask again after a wait: rate limits, overload, a broken connection.
    Retryable,
    /// Compact the conversation: it does not fit the model.
    ContextOverflow,
    /// The key is missing, wrong or may not use the model.
    Authentication,
    /// The provider refuses the request as it is.
    Rejected,
    /// The caller dropped the call.
    Cancelled,
}

impl ModelError {
    /// Returns an error without an HTTP response.
    #[must_use]
    pub const fn new(kind: ModelErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            status: None,
            retry_after: None,
            response_body: None,
            response_headers: Vec::new(),
            url: None,
        }
    }
}
