//! Who fetches pages: this crate knows no HTTP.

use std::time::Duration;

use crate::tool::ToolAbort;

/// A page to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebPageRequest {
    /// Its address, `http` or `https`.
    pub url: String,
    /// Which media types are wanted, as the header `Accept` says it.
    pub accept: String,
    /// How long it may take in all.
    pub timeout: Duration,
    /// The most bytes of a body.
    pub max_bytes: usize,
}

/// A page that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPage {
    /// Where it was found, after redirects.
    pub url: String,
    /// The status of the response.
    pub status: u16,
    /// The media type as the server names it.
    pub content_type: String,
    /// The body.
    pub bytes: Vec<u8>,
}

/// Fetches pages of the web. It refuses private addresses, also behind redirects.
pub trait PageFetcher: Send + Sync {
    /// Fetches a page; ends early when the call is aborted.
    ///
    /// # Errors
    ///
    /// What the model reads: the page cannot be fetched, is too large, took too long, or may not be fetched.
    fn fetch(&self, request: &WebPageRequest, abort: &ToolAbort) -> Result<FetchedPage, String>;
}
