//! Why a request got no answer. No error contains a credential, a query or a body.

use std::time::Duration;

/// Why a request got no answer, or none to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The address is no URL of HTTP.
    #[error("`{url}` is not a usable address: {reason}")]
    InvalidUrl {
        /// What was given, without its credentials and query.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header has a name or a value that HTTP does not allow. The value is not quoted.
    #[error("the header `{name}` is not valid")]
    InvalidHeader {
        /// The name of the header.
        name: String,
    },
    /// The setting of a proxy is not valid.
    #[error("the proxy is not valid: {reason}")]
    InvalidProxy {
        /// What is wrong with it.
        reason: String,
    },
    /// The address is not on the public internet.
    #[error("{host} is not a public address, so it is not asked")]
    AddressRefused {
        /// The host that was to be asked.
        host: String,
    },
    /// No connection was made.
    #[error("cannot connect to {host}: {reason}")]
    Connect {
        /// The host that was to be asked.
        host: String,
        /// What happened.
        reason: String,
    },
    /// The host did not prove who it is.
    #[error("the certificate of {host} is not trusted: {reason}")]
    Certificate {
        /// The host that was asked.
        host: String,
        /// What is wrong with the certificate.
        reason: String,
    },
    /// The answer leads to an address that may not be followed.
    #[error("{host} redirects to {target}, which is not followed")]
    RedirectRefused {
        /// The host that was asked.
        host: String,
        /// Where it points to, without its credentials and query.
        target: String,
    },
    /// The answers lead from one to the next without end.
    #[error("more than {limit} redirects")]
    TooManyRedirects {
        /// How many were followed.
        limit: usize,
    },
    /// The host took too long.
    #[error("{host} sent no {phase} within {} seconds", limit.as_secs_f32())]
    Timeout {
        /// The host that was asked.
        host: String,
        /// What was waited for.
        phase: TimeoutPhase,
        /// How long.
        limit: Duration,
    },
    /// The body is longer than the request allows.
    #[error("the response is longer than {limit} bytes")]
    BodyTooLarge {
        /// The bytes that are allowed.
        limit: u64,
    },
    /// The body is compressed although the request allowed no compression.
    #[error("the response is encoded as `{encoding}`, which was not asked for")]
    Encoded {
        /// The encoding.
        encoding: String,
    },
    /// The connection broke before the response was complete.
    #[error("the connection to {host} broke: {reason}")]
    Broken {
        /// The host that was asked.
        host: String,
        /// What happened.
        reason: String,
    },
    /// The caller cancelled the request.
    #[error("the request was cancelled")]
    Cancelled,
    /// Requests cannot be made on this machine.
    #[error("outgoing HTTP cannot start: {reason}")]
    Setup {
        /// What is missing.
        reason: String,
    },
}

/// What a request waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutPhase {
    /// A connection and the headers of the response.
    Headers,
    /// The next piece of the body.
    Body,
    /// All of the response.
    Response,
}

impl std::fmt::Display for TimeoutPhase {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Headers => "headers",
            Self::Body => "more data",
            Self::Response => "complete response",
        })
    }
}

impl OutboundError {
    /// Returns true if the same request may succeed later without a change.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. })
    }
}
