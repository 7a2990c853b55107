//! The tool `webfetch`: a page of the web, converted for a model. The fetching itself is injected.

mod entity;
mod html_token;
mod html_writer;
mod page_fetcher;
mod web_fetch;

pub use page_fetcher::{FetchedPage, PageFetcher, WebPageRequest};
pub use web_fetch::WebFetchTool;
