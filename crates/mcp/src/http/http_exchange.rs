//! The requests of one connection, and what their responses bring. All of it blocks.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::RequestId;
use serde_json::json;
use turnstone_outbound::{
    AddressPolicy, HttpClient, HttpMethod, OutboundRequest, OutboundTimeouts, RedirectPolicy,
    RequestCanceller, ResponseHead, ResponseStream,
};

use super::event_stream::EventDecoder;
use crate::ToolServerError;
use crate::inbox::{FaultSlot, InboxSender, MAX_MESSAGE_BYTES};
use crate::safe_text::clean_line;

const SESSION_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";
/// The longest id of a session.
const MAX_SESSION_BYTES: usize = 1 << 10;
/// How long a server has to end a session.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How much of an error's body is shown.
const SHOWN_BODY_BYTES: usize = 200;
/// How much of an error's body is read.
const MAX_ERROR_BODY: usize = 64 << 10;
/// How often a stream for notifications is opened again in one connection; then changes of the list of tools are
/// seen with the next connection.
const MAX_LISTEN_ATTEMPTS: u32 = 100;

/// The requests of one connection.
pub(crate) struct HttpExchange {
    pub(crate) client: HttpClient,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) inbox: Mutex<Option<std::sync::Arc<InboxSender>>>,
    pub(crate) faults: FaultSlot,
    pub(crate) state: Mutex<ExchangeState>,
    pub(crate) changed: Condvar,
}

/// What changes during a connection.
#[derive(Default)]
pub(crate) struct ExchangeState {
    /// The id that the server gave to the session.
    session: Option<String>,
    /// The version of the protocol, once it is agreed on.
    pub(crate) version: Option<String>,
    open: HashMap<u64, OpenResponse>,
    next: u64,
    is_closed: bool,
}

/// A response that is read.
struct OpenResponse {
    canceller: RequestCanceller,
    /// The request that it answers.
    request: Option<RequestId>,
}

impl HttpExchange {
    pub(crate) fn state(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message; `on_head` hears whether the server accepts it, before what it answers is read.
    pub(crate) fn post(
        &self,
        body: Vec<u8>,
        request: Option<&RequestId>,
        on_head: impl FnOnce(Result<(), ToolServerError>),
    ) {
        let accept = "application/json, text/event-stream";
        let mut headers = vec![("accept".to_owned(), accept.to_owned())];
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        let sent = self.build_request(HttpMethod::Post, headers, Some(body));
        let Some((mut response, number)) = self.open(sent, request.cloned()) else {
            on_head(Err(ToolServerError::Closed { reason: "it was closed".to_owned() }));
            return;
        };
        let head =
            response.read_head().map_err(|error| ToolServerError::unavailable(error.to_string()));
        let accepted = head.and_then(|head| self.check_head(head, &mut response));
        match accepted {
            Err(error) => on_head(Err(error)),
            Ok(head) => {
                on_head(Ok(()));
                let is_answered = self.read_body(&head, &mut response);
                if let (Some(request), false) = (request, is_answered) {
                    self.fail_request(request);
                }
            }
        }
        self.state().open.remove(&number);
    }

    /// Listens for what the server says without being asked, for as long as it offers that.
    pub(crate) fn listen(&self) {
        let mut attempts = 0;
        while attempts < MAX_LISTEN_ATTEMPTS {
            let headers = vec![("accept".to_owned(), "text/event-stream".to_owned())];
            let sent = self.build_request(HttpMethod::Get, headers, None);
            let Some((mut response, number)) = self.open(sent, None) else { return };
            match response.read_head() {
                // 405: the server has nothing to say without being asked.
                Ok(head) if !is_event_stream(&head) => return self.forget(number),
                Ok(head) => drop(self.read_body(&head, &mut response)),
                Err(_) => {}
            }
            self.forget(number);
            attempts += 1;
            let state = self.state();
            let wait = Duration::from_secs(1 << attempts.min(6));
            let waited = self.changed.wait_timeout_while(state, wait, |it| !it.is_closed);
            if waited.unwrap_or_else(PoisonError::into_inner).0.is_closed {
                return;
            }
        }
    }

    /// Gives up what is under way, and lets the server end the session.
    pub(crate) fn close(&self) {
        self.end();
        let session = self.state().session.take();
        if let Some(session) = session {
            let headers = vec![(SESSION_HEADER.to_owned(), session)];
            let mut request = self.build_request(HttpMethod::Delete, headers, None);
            request.timeouts.total = Some(END_TIMEOUT);
            // A session that is not ended here ends by time at the server.
            drop(self.client.start(request).read_head());
        }
    }

    /// Gives up what is under way: the protocol sees the end of the connection.
    fn end(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.open.values().for_each(|it| it.canceller.cancel());
        drop(state);
        self.changed.notify_all();
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Gives up the response to a request that is no longer wanted.
    pub(crate) fn cancel(&self, request: &RequestId) {
        let state = self.state();
        let open = state.open.values().filter(|it| it.request.as_ref() == Some(request));
        open.for_each(|it| it.canceller.cancel());
    }

    fn build_request(
        &self,
        method: HttpMethod,
        mut headers: Vec<(String, String)>,
        body: Option<Vec<u8>>,
    ) -> OutboundRequest {
        let state = self.state();
        let mut set = |name: &str, value: &Option<String>| {
            headers.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
        };
        set(VERSION_HEADER, &state.version);
        set(SESSION_HEADER, &state.session);
        OutboundRequest {
            method,
            url: self.url.clone(),
            headers,
            credentials: self.headers.clone(),
            body,
            // The person has configured this address; it may be on this machine.
            addresses: AddressPolicy::Any,
            redirects: RedirectPolicy::SameOrigin,
            timeouts: OutboundTimeouts::NONE,
            max_body: u64::MAX,
        }
    }

    /// Starts a request that can be given up; nothing once the connection is closed.
    fn open(
        &self,
        sent: OutboundRequest,
        request: Option<RequestId>,
    ) -> Option<(ResponseStream, u64)> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        let response = self.client.start(sent);
        let number = state.next;
        state.next += 1;
        let canceller = response.canceller();
        state.open.insert(number, OpenResponse { canceller, request });
        Some((response, number))
    }

    fn forget(&self, number: u64) {
        self.state().open.remove(&number);
    }

    /// Tells whether a response can be read as an answer.
    fn check_head(
        &self,
        head: ResponseHead,
        response: &mut ResponseStream,
    ) -> Result<ResponseHead, ToolServerError> {
        let mut state = self.state();
        match head.status {
            200..=299 => {
                if let Some(session) = head.header(SESSION_HEADER)
                    && state.session.is_none()
                {
                    let is_visible = session.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
                    if !is_visible || session.len() > MAX_SESSION_BYTES {
                        return Err(ToolServerError::InvalidAnswer {
                            reason: "its session id is not valid".to_owned(),
                        });
                    }
                    state.session = Some(session.to_owned());
                }
                Ok(head)
            }
            401 => {
                drop(state);
                Err(self.end_with(ToolServerError::NeedsAuthorization))
            }
            404 if state.session.take().is_some() => {
                drop(state);
                // The next use begins a new session.
                let reason = "its session is over".to_owned();
                Err(self.end_with(ToolServerError::Closed { reason }))
            }
            status => {
                drop(state);
                let body = read_bounded(response, MAX_ERROR_BODY).unwrap_or_default();
                let words = clean_line(&String::from_utf8_lossy(&body), SHOWN_BODY_BYTES);
                let colon = if words.is_empty() { "" } else { ": " };
                Err(ToolServerError::unavailable(format!("HTTP status {status}{colon}{words}")))
            }
        }
    }

    /// Reads the messages in a body; true if a response was among them.
    fn read_body(&self, head: &ResponseHead, response: &mut ResponseStream) -> bool {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(inbox) = inbox else { return false };
        if !is_event_stream(head) {
            let Some(body) = read_bounded(response, MAX_MESSAGE_BYTES) else { return false };
            return inbox.receive(&body).unwrap_or(false);
        }
        let mut decoder = EventDecoder::default();
        let mut is_answered = false;
        while let Ok(Some(chunk)) = response.read_chunk() {
            let Ok(events) = decoder.push(&chunk) else {
                let reason = "it sent a message of more than 16 MiB".to_owned();
                drop(self.end_with(ToolServerError::Closed { reason }));
                return is_answered;
            };
            for event in events {
                match inbox.receive(&event) {
                    Ok(is_response) => is_answered |= is_response,
                    Err(_) => {
                        self.end();
                        return is_answered;
                    }
                }
            }
        }
        is_answered
    }

    /// Lets a request fail whose response has ended without an answer.
    fn fail_request(&self, request: &RequestId) {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let error = json!({"jsonrpc": "2.0", "id": request, "error": {
            "code": -32000, "message": "the response ended without an answer" }});
        // A connection that is closed fails all of its requests.
        let _passed = inbox.map(|inbox| inbox.receive(error.to_string().as_bytes()));
    }

    /// Ends the connection, and says why.
    fn end_with(&self, fault: ToolServerError) -> ToolServerError {
        self.faults.set(fault.clone());
        self.end();
        fault
    }
}

fn is_event_stream(head: &ResponseHead) -> bool {
    let kind = head.header("content-type").unwrap_or_default().trim_start();
    let kind = kind.split(';').next().unwrap_or_default().trim_end();
    head.status == 200 && kind.eq_ignore_ascii_case("text/event-stream")
}

/// Reads a body; nothing if it breaks or is too long.
fn read_bounded(response: &mut ResponseStream, limit: usize) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.read_chunk().ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > limit {
            return None;
        }
    }
    Some(body)
}
