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

impl WireKind {
    /// Returns the wire that a package of OpenCode's configuration stands for, if it is known.
    #[must_use]
    pub fn find_by_package(npm: &str) -> Option<Self> {
        match npm {
            "@ai-sdk/openai" | "@ai-sdk/azure" => Some(Self::Responses),
            "@ai-sdk/anthropic" => Some(Self::AnthropicMessages),
            "@ai-sdk/google" => Some(Self::Gemini),
            "@ai-sdk/openai-compatible"
            | "@openrouter/ai-sdk-provider"
            | "@ai-sdk/groq"
            | "@ai-sdk/deepinfra"
            | "@ai-sdk/cerebras"
            | "@ai-sdk/togetherai"
            | "@ai-sdk/mistral"
            | "@ai-sdk/xai"
            | "@ai-sdk/perplexity"
            | "@ai-sdk/vercel" => Some(Self::ChatCompletions),
            _ => None,
        }
    }

    /// Returns the address of the service that a package stands for, if it has one.
    #[must_use]
    pub fn find_default_url(npm: &str) -> Option<&'static str> {
        match npm {
            "@ai-sdk/openai" => Some("https://api.openai.com/v1"),
            "@ai-sdk/anthropic" => Some("https://api.anthropic.com/v1"),
            "@ai-sdk/google" => Some("https://generativelanguage.googleapis.com/v1beta"),
            "@openrouter/ai-sdk-provider" => Some("https://openrouter.ai/api/v1"),
            "@ai-sdk/groq" => Some("https://api.groq.com/openai/v1"),
            "@ai-sdk/deepinfra" => Some("https://api.deepinfra.com/v1/openai"),
            "@ai-sdk/cerebras" => Some("https://api.cerebras.ai/v1"),
            "@ai-sdk/togetherai" => Some("https://api.together.xyz/v1"),
            "@ai-sdk/mistral" => Some("https://api.mistral.ai/v1"),
            "@ai-sdk/xai" => Some("https://api.x.ai/v1"),
            "@ai-sdk/perplexity" => Some("https://api.perplexity.ai"),
            "@ai-sdk/vercel" => Some("https://api.v0.dev/v1"),
            _ => None,
        }
    }
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
