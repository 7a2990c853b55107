//! How one provider is reached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use turnstone_outbound::HttpClient;

use super::http_provider::HttpProvider;
use crate::model::Provider;

/// The protocol in which a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// Chat completions, as OpenAI introduced them and most services and local servers speak them.
    ChatCompletions,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    AnthropicMessages,
    /// Gemini's `streamGenerateContent`.
    Gemini,
}

/// How long a provider may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProviderTimeouts {
    /// Until the headers of the response.
    pub headers: Option<Duration>,
    /// Between two pieces of the answer.
    pub chunk: Option<Duration>,
    /// For the complete answer.
    pub total: Option<Duration>,
}

/// How one provider is reached.
#[derive(Clone)]
pub struct ProviderSettings {
    /// The name of the provider, such as `openrouter`. A few have peculiarities.
    pub provider: String,
    /// The protocol.
    pub wire: WireKind,
    /// The address below which the routes of the wire are.
    pub base_url: String,
    /// The key; services on this machine often need none.
    pub key: Option<String>,
    /// More headers. They may contain keys, so they are handled as such; they replace ours.
    pub headers: Vec<(String, String)>,
    /// How long to wait.
    pub timeouts: ProviderTimeouts,
    /// What is added to the body of each request.
    pub extra_body: Map<String, Value>,
    /// Requests name the session as the key of the prompt cache. Chat completions only; responses always do.
    pub sets_cache_key: bool,
    /// In which field models want their reasoning back, where it is not `reasoning_content`
    /// (`interleaved.field` of the catalogue), by the name of the model. Chat completions only.
    pub reasoning_fields: BTreeMap<String, String>,
}

impl ProviderSettings {
    /// Returns settings without a key and without limits.
    #[must_use]
    pub fn new(provider: &str, wire: WireKind, base_url: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            wire,
            base_url: base_url.to_owned(),
            key: None,
            headers: Vec::new(),
            timeouts: ProviderTimeouts::default(),
            extra_body: Map::new(),
            sets_cache_key: false,
            reasoning_fields: BTreeMap::new(),
        }
    }

    /// Returns the provider, which makes its requests with `client`.
    #[must_use]
    pub fn connect(self, client: HttpClient) -> Arc<dyn Provider> {
        Arc::new(HttpProvider::new(self, client))
    }
}

impl std::fmt::Debug for ProviderSettings {
    /// Shows neither the key nor the values of headers.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        out.debug_struct("ProviderSettings")
            .field("provider", &self.provider)
            .field("wire", &self.wire)
            .field("has_key", &self.key.is_some())
            .field("headers", &headers)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}
