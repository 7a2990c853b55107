//! Why a turn failed, in the form that messages store.

use serde_json::{Map, Value, json};
use turnstone_core::model::{ExtraFields, MessageFailure, MessageFailureKind};

use crate::model::{ModelError, ModelErrorKind};

/// The most characters of a provider's response that are stored.
const MAX_STORED_BODY: usize = 4_000;

/// Returns a failure without further data.
pub(crate) fn unknown_failure(message: &str) -> MessageFailure {
    MessageFailure::new(MessageFailureKind::UnknownError, message)
}

/// Returns the failure of a request to a model.
pub(crate) fn model_failure(error: &ModelError, provider: &str) -> MessageFailure {
    let body = error.response_body.as_deref().map(|body| {
        let end = body.char_indices().nth(MAX_STORED_BODY).map_or(body.len(), |(at, _)| at);
        body.get(..end).unwrap_or_default()
    });
    let kind = match error.kind {
        ModelErrorKind::Authentication => MessageFailureKind::ProviderAuthError,
        ModelErrorKind::ContextOverflow => MessageFailureKind::ContextOverflowError,
        ModelErrorKind::Retryable | ModelErrorKind::Rejected => MessageFailureKind::Api,
        ModelErrorKind::Cancelled => MessageFailureKind::MessageAbortedError,
    };
    let mut data = Map::new();
    data.insert("message".to_owned(), json!(error.message));
    match kind {
        MessageFailureKind::ProviderAuthError => {
            data.insert("providerID".to_owned(), json!(provider));
        }
        MessageFailureKind::ContextOverflowError => {
            data.extend(body.map(|body| ("responseBody".to_owned(), json!(body))));
        }
        MessageFailureKind::Api => {
            let is_retryable = error.kind == ModelErrorKind::Retryable;
            data.insert("isRetryable".to_owned(), Value::Bool(is_retryable));
            data.extend(error.status.map(|status| ("statusCode".to_owned(), json!(status))));
            data.extend(body.map(|body| ("responseBody".to_owned(), json!(body))));
            let headers: Map<String, Value> =
                error.response_headers.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            data.insert("responseHeaders".to_owned(), Value::Object(headers));
            data.extend(error.url.as_ref().map(|url| ("metadata".to_owned(), json!({"url": url}))));
        }
        MessageFailureKind::UnknownError
        | MessageFailureKind::MessageOutputLengthError
        | MessageFailureKind::MessageAbortedError
        | MessageFailureKind::StructuredOutputError
        | MessageFailureKind::ContentFilterError
        | MessageFailureKind::Other(_) => {}
    }
    MessageFailure { name: kind, data: Value::Object(data), extra: ExtraFields::new() }
}
