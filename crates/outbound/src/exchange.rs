//! Carries out one request: addresses, redirects, timeouts, limits.

use std::error::Error;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, Url};

use crate::client::{ConnectionRoute, SharedClient};
use crate::resolver::{RefusedName, resolve_allowed};
use crate::response::{PieceSender, ResponsePiece};
use crate::{
    AddressPolicy, HttpMethod, OutboundError, OutboundRequest, RedirectPolicy, ResponseHead,
    TimeoutPhase,
};

/// Carries out `request` and sends the response, or the error that ended it.
pub(crate) async fn exchange(
    shared: Arc<SharedClient>,
    request: OutboundRequest,
    sender: PieceSender,
) {
    let (limit, host) = (request.timeouts.total, describe_text(&request.url));
    let run = run_exchange(&shared, request, &sender);
    let ended = within(limit, TimeoutPhase::Response, &host, run).await;
    if let Err(error) = ended.and_then(|ended| ended) {
        // A reader that has gone does not need the error.
        drop(sender.send(Err(error)).await);
    }
}

async fn run_exchange(
    shared: &SharedClient,
    request: OutboundRequest,
    sender: &PieceSender,
) -> Result<(), OutboundError> {
    let (timeouts, max_body) = (request.timeouts, request.max_body);
    let mut response = follow_redirects(shared, request).await?;
    let host = host_of(response.url());
    let head = read_response_head(&response)?;
    if sender.send(Ok(ResponsePiece::Head(head))).await.is_err() {
        return Ok(());
    }
    let mut length: u64 = 0;
    loop {
        let chunk = within(timeouts.chunk, TimeoutPhase::Body, &host, response.chunk()).await?;
        let chunk = chunk.map_err(|error| broken(&host, &error))?;
        let piece = match chunk {
            None => ResponsePiece::End,
            Some(chunk) => {
                length += chunk.len() as u64;
                if length > max_body {
                    return Err(OutboundError::BodyTooLarge { limit: max_body });
                }
                ResponsePiece::Chunk(chunk.into())
            }
        };
        let is_end = matches!(piece, ResponsePiece::End);
        if sender.send(Ok(piece)).await.is_err() || is_end {
            return Ok(());
        }
    }
}

/// The request to the next host.
struct RequestHop {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

/// Asks host after host until one gives an answer of its own.
async fn follow_redirects(
    shared: &SharedClient,
    request: OutboundRequest,
) -> Result<Response, OutboundError> {
    let url = parse_url(&request.url)?;
    let origin = url.origin();
    let method = match request.method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Post => Method::POST,
        HttpMethod::Delete => Method::DELETE,
    };
    let headers = header_map(&request.headers)?;
    let credentials = header_map(&request.credentials)?;
    let mut hop = RequestHop { method, url, headers, body: request.body };
    let mut has_left_origin = false;
    for count in 0_usize.. {
        let mut sent = reqwest::Request::new(hop.method.clone(), hop.url.clone());
        *sent.headers_mut() = hop.headers.clone();
        if !has_left_origin {
            sent.headers_mut().extend(credentials.clone());
        }
        *sent.body_mut() = hop.body.clone().map(Into::into);
        let host = host_of(&hop.url);
        let route = choose_route(shared, &hop.url, request.addresses).await?;
        let execute = shared.pool(&route)?.execute(sent);
        let response = within(request.timeouts.headers, TimeoutPhase::Headers, &host, execute);
        let response = response.await?.map_err(|error| request_error(&host, error))?;
        let Some(target) = redirect_target(&response) else { return Ok(response) };
        let is_same_origin = target.origin() == origin;
        let limit = match request.redirects {
            RedirectPolicy::SameOrigin if !is_same_origin => {
                return Err(OutboundError::RedirectRefused { host, target: describe_url(&target) });
            }
            RedirectPolicy::SameOrigin => 5,
            RedirectPolicy::Follow(limit) => limit,
        };
        if count >= limit {
            return Err(OutboundError::TooManyRedirects { limit });
        }
        // A host on the way could send the credentials back to where they came from, with a request
        // of its choice; once left, the first origin is a host as any other.
        has_left_origin |= !is_same_origin;
        hop.redirect(response.status().as_u16(), &target)?;
    }
    Err(OutboundError::TooManyRedirects { limit: usize::MAX })
}

impl RequestHop {
    /// Turns this into the request that a redirect asks for.
    fn redirect(&mut self, status: u16, target: &Url) -> Result<(), OutboundError> {
        // 307 and 308 repeat the request; after the others it is read with GET, as browsers do.
        if !matches!(status, 307 | 308) {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(reqwest::header::CONTENT_TYPE);
        }
        self.url = parse_url(target.as_str())?;
        // Credentials in the address of a redirect would be sent as a header.
        let is_cleared = self.url.set_username("").and_then(|()| self.url.set_password(None));
        is_cleared.map_err(|()| invalid_url(target.as_str(), "it has no host"))
    }
}

fn redirect_target(response: &Response) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(reqwest::header::LOCATION)?.to_str().ok()?;
    response.url().join(location).ok()
}

/// Decides how a host is reached, and refuses what the policy forbids.
async fn choose_route(
    shared: &SharedClient,
    url: &Url,
    policy: AddressPolicy,
) -> Result<ConnectionRoute, OutboundError> {
    let host = url.host_str().unwrap_or_default();
    let refused = || OutboundError::AddressRefused { host: host.to_owned() };
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    if literal.is_some_and(|address| !policy.allows(address)) {
        return Err(refused());
    }
    let Some(proxy) = shared.proxies.find(url) else {
        return Ok(ConnectionRoute::Direct(policy));
    };
    if policy == AddressPolicy::PublicOnly && literal.is_none() {
        // The proxy resolves the name itself. If it can be resolved here too, it must be public.
        match resolve_allowed(host, policy).await {
            Err(error) if error.is::<RefusedName>() => return Err(refused()),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(ConnectionRoute::Proxy(proxy.clone()))
}

fn read_response_head(response: &Response) -> Result<ResponseHead, OutboundError> {
    if let Some(encoding) = response.headers().get(reqwest::header::CONTENT_ENCODING)
        && encoding.as_bytes() != b"identity"
    {
        let encoding = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
        return Err(OutboundError::Encoded { encoding });
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = response.headers().iter();
    let headers = headers.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    let url = describe_url(response.url());
    Ok(ResponseHead { status: response.status().as_u16(), headers, url })
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, OutboundError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let invalid = || OutboundError::InvalidHeader { name: name.clone() };
        let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        map.insert(known, value);
    }
    Ok(map)
}

fn parse_url(text: &str) -> Result<Url, OutboundError> {
    let url = Url::parse(text).map_err(|error| invalid_url(text, &error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid_url(text, "only http and https are supported"));
    }
    Ok(url)
}

fn invalid_url(text: &str, reason: &str) -> OutboundError {
    OutboundError::InvalidUrl { url: describe_text(text), reason: reason.to_owned() }
}

/// Waits for `work` no longer than `limit`.
async fn within<T>(
    limit: Option<Duration>,
    phase: TimeoutPhase,
    host: &str,
    work: impl Future<Output = T>,
) -> Result<T, OutboundError> {
    match limit {
        None => Ok(work.await),
        Some(limit) => tokio::time::timeout(limit, work)
            .await
            .map_err(|_| OutboundError::Timeout { host: host.to_owned(), phase, limit }),
    }
}

/// Returns an address without its credentials, query and fragment.
pub(crate) fn describe_text(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => describe_url(&url),
        // What cannot be read is shown without what may be a password or a query.
        Err(_) => {
            let shown = text.split(['?', '#']).next().unwrap_or_default();
            shown.rsplit('@').next().unwrap_or_default().chars().take(200).collect()
        }
    }
}

fn describe_url(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn host_of(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// Turns an error before the headers into one of ours.
fn request_error(host: &str, error: reqwest::Error) -> OutboundError {
    let error = error.without_url();
    let host = host.to_owned();
    let causes = || error_causes(Some(&error));
    if causes().any(|cause| cause.is::<RefusedName>()) {
        return OutboundError::AddressRefused { host };
    }
    let tls = causes().find_map(|cause| cause.downcast_ref::<rustls::Error>());
    if let Some(rustls::Error::InvalidCertificate(problem)) = tls {
        return OutboundError::Certificate { host, reason: problem.to_string() };
    }
    // The last cause says what happened; those before it say where.
    let reason = causes().last().map_or_else(String::new, ToString::to_string);
    if error.is_connect() {
        OutboundError::Connect { host, reason }
    } else {
        OutboundError::Broken { host, reason }
    }
}

/// Turns an error within the body into one of ours.
fn broken(host: &str, error: &reqwest::Error) -> OutboundError {
    let reason = error_causes(error.source()).last();
    let reason = reason.map_or_else(|| "incomplete body".to_owned(), ToString::to_string);
    OutboundError::Broken { host: host.to_owned(), reason }
}

/// Returns an error and what caused it, one after the other.
fn error_causes<'e>(
    error: Option<&'e (dyn Error + 'static)>,
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error, |cause| match cause.downcast_ref::<std::io::Error>() {
        // An error of I/O names as its source what is behind the error it wraps, not that error.
        Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => (*cause).source(),
    })
}
