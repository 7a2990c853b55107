//! What is asked of a host.

use std::time::Duration;

use crate::AddressPolicy;

/// The methods that requests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// Reads.
    Get,
    /// Sends a body.
    Post,
    /// Ends a session of a service.
    Delete,
}

/// What happens to a response that leads elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// It is an error unless it stays at scheme, host and port: what was sent is for that host alone.
    SameOrigin,
    /// So many are followed. Credentials are sent to the first origin only.
    Follow(usize),
}

/// How long a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboundTimeouts {
    /// For a connection and the headers of the response.
    pub headers: Option<Duration>,
    /// For each piece of the body.
    pub chunk: Option<Duration>,
    /// For the complete response.
    pub total: Option<Duration>,
}

impl OutboundTimeouts {
    /// No limits: only the connection attempt itself ends by time.
    pub const NONE: Self = Self { headers: None, chunk: None, total: None };
}

/// One request.
#[derive(Clone)]
pub struct OutboundRequest {
    /// What to do.
    pub method: HttpMethod,
    /// Where.
    pub url: String,
    /// Headers that may follow a redirect to any host.
    pub headers: Vec<(String, String)>,
    /// Headers that are for the host of `url` alone, such as keys.
    pub credentials: Vec<(String, String)>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// Which addresses may be reached.
    pub addresses: AddressPolicy,
    /// Which redirects are followed.
    pub redirects: RedirectPolicy,
    /// How long to wait.
    pub timeouts: OutboundTimeouts,
    /// The most bytes of the response's body.
    pub max_body: u64,
}

impl OutboundRequest {
    /// Returns a request for a page that somebody else named: public addresses only, ten redirects.
    #[must_use]
    pub const fn get_public(url: String, max_body: u64) -> Self {
        Self {
            method: HttpMethod::Get,
            url,
            headers: Vec::new(),
            credentials: Vec::new(),
            body: None,
            addresses: AddressPolicy::PublicOnly,
            redirects: RedirectPolicy::Follow(10),
            timeouts: OutboundTimeouts::NONE,
            max_body,
        }
    }
}

impl std::fmt::Debug for OutboundRequest {
    /// Shows neither credentials nor the body, and of the address no query.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OutboundRequest")
            .field("method", &self.method)
            .field("url", &crate::exchange::describe_text(&self.url))
            .field("addresses", &self.addresses)
            .field("redirects", &self.redirects)
            .finish_non_exhaustive()
    }
}
