//! Asks a provider over HTTP and delivers its answer.

use serde_json::Value;
use turnstone_outbound::{
    AddressPolicy, HttpClient, HttpMethod, OutboundError, OutboundRequest, OutboundTimeouts,
    RedirectPolicy, ResponseHead, ResponseStream,
};

use super::answer_delivery::AnswerDelivery;
use super::event_stream::EventStreamParser;
use super::json_merge::merge_objects;
use super::provider_failure::{ProviderFailure, retry_after};
use super::provider_settings::{ProviderSettings, WireKind};
use super::wire_format::{AnswerDecoder, WireFormat};
use crate::model::{
    ModelCall, ModelError, ModelErrorKind, ModelEvent, ModelEventSink, ModelRequest, Provider,
};

/// The most bytes of an answer.
const ANSWER_LIMIT: u64 = 512 << 20;
/// The most bytes that are read of the body of an error.
const ERROR_BODY_LIMIT: usize = 64 << 10;
/// The most characters of the body of an error that are kept.
const KEPT_BODY_CHARS: usize = 4000;
/// The most characters of an error's message that are kept.
const KEPT_MESSAGE_CHARS: usize = 2000;
/// The headers of an error that are kept, by their beginnings.
const KEPT_HEADERS: [&str; 9] = [
    "retry-after",
    "x-ratelimit-",
    "ratelimit-",
    "anthropic-ratelimit-",
    "x-request-id",
    "request-id",
    "x-should-retry",
    "content-type",
    "date",
];

/// A provider behind one of the wires.
pub(super) struct HttpProvider {
    settings: ProviderSettings,
    client: HttpClient,
    format: Box<dyn WireFormat>,
}

impl HttpProvider {
    pub(super) fn new(settings: ProviderSettings, client: HttpClient) -> Self {
        let format: Box<dyn WireFormat> = match settings.wire {
            WireKind::ChatCompletions => Box::new(super::chat::ChatFormat),
            WireKind::Responses => Box::new(super::responses::ResponsesFormat),
            WireKind::AnthropicMessages => Box::new(super::anthropic::AnthropicFormat),
            WireKind::Gemini => Box::new(super::gemini::GeminiFormat),
        };
        Self { settings, client, format }
    }

    /// Encodes a request for the provider.
    fn outbound_request(&self, request: &ModelRequest) -> OutboundRequest {
        let settings = &self.settings;
        let encoded = self.format.encode(request, settings);
        let mut body = encoded.body;
        merge_objects(&mut body, settings.extra_body.clone());
        let base = settings.base_url.trim_end_matches('/');
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![
            text("content-type", "application/json"),
            text("accept", "text/event-stream"),
            text("x-session-id", &request.session),
            text("x-session-affinity", &request.session),
        ];
        if let Some(parent) = &request.parent {
            headers.push(text("x-parent-session-id", parent));
        }
        headers.extend(encoded.headers);
        let own = settings.headers.iter().map(|(name, value)| text(&name.to_lowercase(), value));
        // Later headers replace earlier ones: the user's replace ours.
        let credentials = encoded.key_header.into_iter().chain(own).collect();
        OutboundRequest {
            method: HttpMethod::Post,
            url: format!("{base}/{}", encoded.route),
            headers,
            credentials,
            body: Some(Value::Object(body).to_string().into_bytes()),
            addresses: AddressPolicy::Any,
            redirects: RedirectPolicy::SameOrigin,
            timeouts: OutboundTimeouts {
                headers: settings.timeouts.headers,
                chunk: settings.timeouts.chunk,
                total: settings.timeouts.total,
            },
            max_body: ANSWER_LIMIT,
        }
    }
}

impl Provider for HttpProvider {
    fn start(&self, request: ModelRequest, sink: ModelEventSink) -> ModelCall {
        let delivery = AnswerDelivery::new(sink);
        let response = self.client.start(self.outbound_request(&request));
        let canceller = response.canceller();
        let reader = AnswerReader {
            response,
            decoder: self.format.decoder(),
            secrets: Secrets::of(&self.settings),
            url: None,
        };
        delivery.clone().spawn(move |delivery| reader.run(delivery));
        delivery.into_call(move || canceller.cancel())
    }
}

/// Reads one answer on a thread of its own.
struct AnswerReader {
    response: ResponseStream,
    decoder: Box<dyn AnswerDecoder>,
    secrets: Secrets,
    url: Option<String>,
}

/// Why reading stopped.
enum AnswerReadEnd {
    Failed(Box<ModelError>),
    /// Nobody waits for the answer any more.
    Dropped,
}

impl From<ModelError> for AnswerReadEnd {
    fn from(error: ModelError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl AnswerReader {
    fn run(mut self, delivery: &AnswerDelivery) {
        if let Err(AnswerReadEnd::Failed(error)) = self.read(delivery) {
            delivery.fail(*error);
        }
    }

    fn read(&mut self, delivery: &AnswerDelivery) -> Result<(), AnswerReadEnd> {
        let head = self.response.read_head().map_err(|error| self.transport_error(&error))?;
        self.url = Some(head.url.clone());
        if !(200..300).contains(&head.status) {
            return Err(self.read_error_response(&head).into());
        }
        let is_json =
            head.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
        if is_json {
            self.read_whole_body(delivery)?;
        } else {
            self.read_stream(delivery)?;
        }
        let mut output = Vec::new();
        let ended = self.decoder.finish(&mut output);
        deliver(delivery, output)?;
        ended.map_err(|failure| self.model_error(&failure, true).into())
    }

    fn read_stream(&mut self, delivery: &AnswerDelivery) -> Result<(), AnswerReadEnd> {
        let (mut parser, mut events) = (EventStreamParser::default(), Vec::new());
        while !self.decoder.is_complete() {
            match self.response.read_chunk() {
                Ok(Some(chunk)) => parser.push(&chunk, &mut events).map_err(|error| {
                    ModelError::new(ModelErrorKind::Rejected, error.to_string())
                })?,
                Ok(None) => {
                    parser.finish(&mut events);
                    // The last event may have been cut; whether that matters, the decoder knows.
                    events.retain(|data| is_json_or_end(data));
                    return self.decode(&events, delivery);
                }
                Err(OutboundError::Cancelled) => return Err(AnswerReadEnd::Dropped),
                Err(_) if self.decoder.can_end() => return Ok(()),
                Err(error) => return Err(self.transport_error(&error).into()),
            }
            self.decode(&events, delivery)?;
            events.clear();
        }
        Ok(())
    }

    /// Reads a response that is no stream although one was asked for.
    fn read_whole_body(&mut self, delivery: &AnswerDelivery) -> Result<(), AnswerReadEnd> {
        let body = self.response.read_to_end().map_err(|error| self.transport_error(&error))?;
        self.decode(&[String::from_utf8_lossy(&body).into_owned()], delivery)
    }

    fn decode(
        &mut self,
        events: &[String],
        delivery: &AnswerDelivery,
    ) -> Result<(), AnswerReadEnd> {
        for data in events {
            let mut output = Vec::new();
            let read = read_data(self.decoder.as_mut(), data, &mut output);
            deliver(delivery, output)?;
            read.map_err(|failure| self.model_error(&failure, true))?;
        }
        Ok(())
    }

    fn read_error_response(&mut self, head: &ResponseHead) -> ModelError {
        let mut body = Vec::new();
        // What arrives of an error is enough, however the connection ends.
        while let Ok(Some(chunk)) = self.response.read_chunk() {
            body.extend_from_slice(&chunk);
            if body.len() > ERROR_BODY_LIMIT {
                break;
            }
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        let mut failure = match serde_json::from_str::<Value>(&text) {
            // Gemini sends a list with one error.
            Ok(Value::Array(list)) => {
                ProviderFailure::from_json(list.first().unwrap_or(&Value::Null))
            }
            Ok(value) => ProviderFailure::from_json(&value),
            Err(_) => {
                ProviderFailure { message: text.trim().to_owned(), ..ProviderFailure::default() }
            }
        };
        failure.status = Some(head.status);
        if failure.message.is_empty() || failure.message.starts_with('<') {
            failure.message = format!("the provider answers with status {}", head.status);
        }
        let from_headers = retry_after(|name| head.header(name).map(str::to_owned));
        failure.retry_after = from_headers.or(failure.retry_after);
        let mut error = self.model_error(&failure, !text.trim().is_empty());
        match head.header("x-should-retry") {
            Some("true") if error.kind == ModelErrorKind::Rejected => {
                error.kind = ModelErrorKind::Retryable;
            }
            Some("false") if error.kind == ModelErrorKind::Retryable => {
                error.kind = ModelErrorKind::Rejected;
            }
            Some(_) | None => {}
        }
        error.response_body = Some(self.secrets.clean(&text, KEPT_BODY_CHARS));
        let is_kept = |name: &str| KEPT_HEADERS.iter().any(|kept| name.starts_with(kept));
        let headers = head.headers.iter().filter(|(name, _)| is_kept(name));
        let clean =
            |(name, value): &(String, String)| (name.clone(), self.secrets.clean(value, 500));
        error.response_headers = headers.map(clean).collect();
        error
    }

    fn model_error(&self, failure: &ProviderFailure, has_body: bool) -> ModelError {
        let message = self.secrets.clean(&failure.message, KEPT_MESSAGE_CHARS);
        let mut error = ModelError::new(failure.kind(has_body), message);
        error.status = failure.status;
        error.retry_after = failure.retry_after;
        error.url.clone_from(&self.url);
        error
    }

    fn transport_error(&self, error: &OutboundError) -> ModelError {
        let kind = if *error == OutboundError::Cancelled {
            ModelErrorKind::Cancelled
        } else if error.is_transient() {
            ModelErrorKind::Retryable
        } else {
            ModelErrorKind::Rejected
        };
        let mut failed =
            ModelError::new(kind, self.secrets.clean(&error.to_string(), KEPT_MESSAGE_CHARS));
        failed.url.clone_from(&self.url);
        failed
    }
}

/// Tells whether the data of an event is more than a piece of it.
fn is_json_or_end(data: &str) -> bool {
    is_end_mark(data) || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
}

/// Some wires end with a mark that is no JSON, and some servers send empty events.
fn is_end_mark(data: &str) -> bool {
    matches!(data.trim(), "" | "[DONE]")
}

/// Gives the data of one event to a decoder.
fn read_data(
    decoder: &mut dyn AnswerDecoder,
    data: &str,
    output: &mut Vec<ModelEvent>,
) -> Result<(), ProviderFailure> {
    if is_end_mark(data) {
        return decoder.read_event(&Value::String(data.to_owned()), output);
    }
    let value = serde_json::from_str(data)
        .map_err(|_| ProviderFailure::cut("the stream has an event that is not JSON"))?;
    decoder.read_event(&value, output)
}

fn deliver(delivery: &AnswerDelivery, output: Vec<ModelEvent>) -> Result<(), AnswerReadEnd> {
    for event in output {
        let is_last = matches!(event, ModelEvent::Finished { .. });
        if !delivery.send(event) && !is_last {
            return Err(AnswerReadEnd::Dropped);
        }
    }
    Ok(())
}

/// What must not appear in an error: providers quote keys.
struct Secrets(Vec<String>);

impl Secrets {
    fn of(settings: &ProviderSettings) -> Self {
        let headers = settings.headers.iter().map(|(_, value)| value);
        let values = settings.key.iter().chain(headers);
        // A scheme before a key, such as `Bearer`, is a word of its own.
        let words = values.flat_map(|value| value.split_whitespace());
        Self(words.filter(|word| word.len() >= 8).map(str::to_owned).collect())
    }

    /// Returns `text` without secrets and with at most `limit` characters.
    fn clean(&self, text: &str, limit: usize) -> String {
        let mut clean = text.to_owned();
        for secret in &self.0 {
            clean = clean.replace(secret.as_str(), "[redacted]");
        }
        match clean.char_indices().nth(limit) {
            Some((end, _)) => format!("{}…", clean.get(..end).unwrap_or_default()),
            None => clean,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
