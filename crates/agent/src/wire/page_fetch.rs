//! Fetches the pages that models name: public addresses only.

use turnstone_outbound::{
    AddressPolicy, HttpClient, HttpMethod, OutboundRequest, OutboundTimeouts, RedirectPolicy,
};

use crate::tool::{FetchedPage, PageFetcher, ToolAbort, WebPageRequest};

/// How many redirects of a page are followed.
const REDIRECT_LIMIT: usize = 10;

/// Fetches pages with the HTTP client of the program. An address that leads into this machine or its
/// network is refused, also behind a redirect or a name.
pub struct PublicPageFetcher {
    client: HttpClient,
}

impl PublicPageFetcher {
    /// Returns a fetcher that makes its requests with `client`.
    #[must_use]
    pub const fn new(client: HttpClient) -> Self {
        Self { client }
    }
}

impl PageFetcher for PublicPageFetcher {
    fn fetch(&self, request: &WebPageRequest, abort: &ToolAbort) -> Result<FetchedPage, String> {
        let mut response = self.client.start(OutboundRequest {
            method: HttpMethod::Get,
            url: request.url.clone(),
            headers: vec![("accept".to_owned(), request.accept.clone())],
            credentials: Vec::new(),
            body: None,
            addresses: AddressPolicy::PublicOnly,
            redirects: RedirectPolicy::Follow(REDIRECT_LIMIT),
            timeouts: OutboundTimeouts { total: Some(request.timeout), ..OutboundTimeouts::NONE },
            max_body: request.max_bytes as u64,
        });
        let canceller = response.canceller();
        abort.on_request(move || canceller.cancel());
        let head = response.read_head().map_err(|error| error.to_string())?;
        let bytes = response.read_to_end().map_err(|error| error.to_string())?;
        let content_type = head.header("content-type").unwrap_or_default().to_owned();
        Ok(FetchedPage { url: head.url, status: head.status, content_type, bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use turnstone_outbound::{HttpClientSettings, ProxySettings};
    use turnstone_testkit::scripted_server::{ReplyPiece, ScriptedServer, ServerReply};

    use super::*;

    fn page(url: &str) -> WebPageRequest {
        WebPageRequest {
            url: url.to_owned(),
            accept: "text/html".to_owned(),
            timeout: Duration::from_secs(600),
            max_bytes: 100,
        }
    }

    /// Returns a fetcher whose proxy stands for the public internet.
    fn fetcher(proxy: &ScriptedServer) -> PublicPageFetcher {
        let proxies = ProxySettings { all: Some(proxy.url()), ..ProxySettings::default() };
        let settings = HttpClientSettings { proxies, ..HttpClientSettings::new("test") };
        PublicPageFetcher::new(HttpClient::new(settings).unwrap())
    }

    #[test]
    fn a_page_is_fetched_with_its_type_and_final_address() {
        let replies = vec![
            ServerReply::json(301, "").with_header("location", "/b?q=1"),
            ServerReply::json(404, "{}"),
            ServerReply::json(200, &"x".repeat(101)),
        ];
        let proxy = ScriptedServer::start_with(replies).unwrap();
        let (fetcher, abort) = (fetcher(&proxy), ToolAbort::default());
        let found = fetcher.fetch(&page("http://1.1.1.1/a"), &abort).unwrap();
        assert_eq!((found.url.as_str(), found.status), ("http://1.1.1.1/b", 404));
        assert_eq!(
            (found.content_type.as_str(), &found.bytes[..]),
            ("application/json", &b"{}"[..])
        );
        assert_eq!(proxy.requests()[1].header("accept"), Some("text/html"));
        let large = fetcher.fetch(&page("http://1.1.1.1/a"), &abort).unwrap_err();
        assert_eq!(large, "the response is longer than 100 bytes");
    }

    #[test]
    fn addresses_of_this_machine_are_refused() {
        let server = ScriptedServer::start_with(Vec::new()).unwrap();
        let client = HttpClient::new(HttpClientSettings::new("test")).unwrap();
        let fetcher = PublicPageFetcher::new(client);
        for url in [server.url(), format!("http://localhost:{}", server.port())] {
            let refused = fetcher.fetch(&page(&url), &ToolAbort::default()).unwrap_err();
            assert!(refused.contains("not a public address"), "{refused}");
        }
        assert!(server.requests().is_empty());
    }

    #[test]
    fn an_abort_ends_a_fetch() {
        let reply = ServerReply::events("begun").then(ReplyPiece::WaitForClose);
        let proxy = ScriptedServer::start_with(vec![reply]).unwrap();
        let (fetcher, abort) = (fetcher(&proxy), Arc::new(ToolAbort::default()));
        let fetching = Arc::clone(&abort);
        let fetch = std::thread::spawn(move || fetcher.fetch(&page("http://1.1.1.1/"), &fetching));
        while proxy.open_connections() == 0 {
            std::thread::yield_now();
        }
        abort.request();
        assert_eq!(fetch.join().unwrap(), Err("the request was cancelled".to_owned()));
    }
}
