//! How models are reached: one module for each wire, and the scripted model.

mod answer_blocks;
mod answer_delivery;
mod anthropic;
mod call_ids;
mod chat;
mod event_stream;
mod file_content;
mod gemini;
mod http_provider;
mod json_merge;
mod page_fetch;
mod provider_failure;
mod provider_settings;
mod responses;
mod scripted;
mod tool_schema;
mod wire_format;

pub use page_fetch::PublicPageFetcher;
pub use provider_settings::{ProviderSettings, ProviderTimeouts, WireKind};
pub use scripted::{ScriptError, ScriptedProvider};
