//! Encodes requests for Anthropic's messages.

use serde_json::{Map, Value, json};
use turnstone_core::context::{
    AssistantContent, ModelFile, ModelMessage, ToolOutput, ToolResult, UserContent,
};

use super::answer::AnthropicAnswerDecoder;
use crate::model::{ModelRequest, ToolChoice};
use crate::wire::call_ids::plain_call_id;
use crate::wire::file_content::{FileSource, describe_unsent_file, file_source};
use crate::wire::json_merge::apply_options;
use crate::wire::provider_settings::ProviderSettings;
use crate::wire::wire_format::{AnswerDecoder, EncodedRequest, WireFormat};

const API_VERSION: &str = "2023-06-01";
/// Models with a budget think between tool calls only with this header.
const INTERLEAVED_THINKING: &str = "interleaved-thinking-2025-05-14";
/// The limit of an answer that the request does not set; this wire requires one.
const DEFAULT_OUTPUT_LIMIT: u64 = 32_000;

/// Where options go that have another name on this wire. Thinking is read on its own.
const OPTION_NAMES: [(&str, &[&str]); 4] = [
    ("effort", &["output_config", "effort"]),
    ("topK", &["top_k"]),
    ("serviceTier", &["service_tier"]),
    ("stopSequences", &["stop_sequences"]),
];

/// Anthropic's messages.
pub(in crate::wire) struct AnthropicFormat;

impl WireFormat for AnthropicFormat {
    fn encode(&self, request: &ModelRequest, settings: &ProviderSettings) -> EncodedRequest {
        let thinking = ThinkingOption::read(&request.options);
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(request.model));
        body.insert("max_tokens".to_owned(), json!(thinking.output_limit(request)));
        let mut system: Vec<Value> = request
            .system
            .iter()
            .filter(|text| !text.is_empty())
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        system.iter_mut().take(2).for_each(mark_cached);
        if !system.is_empty() {
            body.insert("system".to_owned(), Value::Array(system));
        }
        body.insert("messages".to_owned(), Value::Array(messages(&request.messages)));
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
            });
            body.insert("tools".to_owned(), tools.collect());
            let choice = match request.tool_choice {
                // A model that thinks cannot be forced.
                ToolChoice::Required if !thinking.is_on() => "any",
                ToolChoice::Auto | ToolChoice::Required => "auto",
                ToolChoice::None => "none",
            };
            body.insert("tool_choice".to_owned(), json!({"type": choice}));
        }
        let mut options = request.options.clone();
        options.remove("thinking");
        if thinking.is_on() {
            options.remove("topK");
        } else {
            for (name, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
                if let Some(value) = value {
                    body.insert(name.to_owned(), json!(value));
                }
            }
        }
        apply_options(&mut body, &options, &OPTION_NAMES);
        if let Some(encoded) = thinking.encode() {
            body.insert("thinking".to_owned(), encoded);
        }
        body.insert("stream".to_owned(), json!(true));
        let mut headers = vec![("anthropic-version".to_owned(), API_VERSION.to_owned())];
        if thinking.budget().is_some() {
            headers.push(("anthropic-beta".to_owned(), INTERLEAVED_THINKING.to_owned()));
        }
        let key = settings.key.as_ref().filter(|key| !key.is_empty());
        let key_header = key.map(|key| ("x-api-key".to_owned(), key.clone()));
        EncodedRequest { route: "messages".to_owned(), headers, key_header, body }
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<AnthropicAnswerDecoder>::default()
    }
}

/// How the model is to think.
enum ThinkingOption {
    Off,
    Budget(u64),
    /// Anything else that is switched on, as it is sent.
    Other(Value),
}

impl ThinkingOption {
    fn read(options: &Map<String, Value>) -> Self {
        let thinking = options.get("thinking").unwrap_or(&Value::Null);
        let budget = thinking["budgetTokens"].as_u64().or(thinking["budget_tokens"].as_u64());
        match (thinking["type"].as_str(), budget) {
            (Some("enabled"), Some(budget)) => Self::Budget(budget),
            (Some("disabled"), _) | (None, _) => Self::Off,
            (Some(_), _) => Self::Other(thinking.clone()),
        }
    }

    const fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    const fn budget(&self) -> Option<u64> {
        match self {
            Self::Budget(budget) => Some(*budget),
            Self::Off | Self::Other(_) => None,
        }
    }

    fn encode(&self) -> Option<Value> {
        match self {
            Self::Off => None,
            Self::Budget(budget) => Some(json!({"type": "enabled", "budget_tokens": budget})),
            Self::Other(thinking) => Some(thinking.clone()),
        }
    }

    /// Returns the limit of the answer, which on this wire includes the thinking.
    fn output_limit(&self, request: &ModelRequest) -> u64 {
        let limit = model_limit(&request.model);
        let cap = request.max_output_tokens.unwrap_or(DEFAULT_OUTPUT_LIMIT);
        match self {
            Self::Budget(budget) => (cap + budget).min(limit).max(budget + 1),
            Self::Off | Self::Other(_) => cap,
        }
    }
}

/// The most tokens of an answer, thinking included, of the models that think with a budget.
fn model_limit(model: &str) -> u64 {
    let is_small = ["opus-4-0", "opus-4-1", "opus-4-2025", "opus-4@"];
    if is_small.iter().any(|name| model.contains(name)) { 32_000 } else { 64_000 }
}

fn mark_cached(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

/// Encodes the conversation. Messages of the same side are joined, with results first.
fn messages(messages: &[ModelMessage]) -> Vec<Value> {
    let mut found: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message {
            ModelMessage::User(content) => ("user", user_blocks(content)),
            ModelMessage::Tool(results) => ("user", results.iter().map(result_block).collect()),
            ModelMessage::Assistant(content) => ("assistant", assistant_blocks(content)),
        };
        if blocks.is_empty() {
            continue;
        }
        match found.last_mut().filter(|(known, _)| *known == role) {
            Some((_, known)) => known.extend(blocks),
            None => found.push((role, blocks)),
        }
    }
    for (role, blocks) in &mut found {
        if *role == "user" {
            // A stable sort: results come first, in their order.
            blocks.sort_by_key(|block| block["type"] != "tool_result");
        }
    }
    trim_last_answer(&mut found);
    for (_, blocks) in found.iter_mut().rev().take(2) {
        let can_be_cached = |block: &&mut Value| {
            !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
        };
        if let Some(block) = blocks.iter_mut().rev().find(can_be_cached) {
            mark_cached(block);
        }
    }
    found.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

/// An answer that the model is to continue must not end in white space.
fn trim_last_answer(found: &mut [(&str, Vec<Value>)]) {
    if let Some(("assistant", blocks)) = found.last_mut()
        && let Some(block) = blocks.last_mut()
        && let Value::String(text) = &block["text"]
    {
        block["text"] = json!(text.trim_end());
    }
}

fn user_blocks(content: &[UserContent]) -> Vec<Value> {
    let block = |part: &UserContent| match part {
        UserContent::Text { text } if text.is_empty() => None,
        UserContent::Text { text } => Some(json!({"type": "text", "text": text})),
        UserContent::File(file) => Some(file_block(file)),
    };
    content.iter().filter_map(block).collect()
}

fn assistant_blocks(content: &[AssistantContent]) -> Vec<Value> {
    let block = |part: &AssistantContent| match part {
        AssistantContent::Text { text, .. } if text.is_empty() => None,
        AssistantContent::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        AssistantContent::Reasoning { text, metadata } => {
            let metadata = metadata.as_ref().unwrap_or(&Value::Null);
            let metadata = &metadata["anthropic"];
            match (&metadata["signature"], &metadata["redactedData"]) {
                (Value::String(signature), _) => {
                    Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
                }
                (_, Value::String(data)) => {
                    Some(json!({"type": "redacted_thinking", "data": data}))
                }
                // Reasoning without a signature is refused.
                _ => None,
            }
        }
        AssistantContent::ToolCall { call, tool, input, .. } => {
            // The input must be an object; what the model wrote otherwise is still shown to it.
            let input = if input.is_object() { input.clone() } else { json!({"arguments": input}) };
            Some(
                json!({"type": "tool_use", "id": plain_call_id(call), "name": tool, "input": input}),
            )
        }
    };
    content.iter().filter_map(block).collect()
}

fn result_block(result: &ToolResult) -> Value {
    let id = plain_call_id(&result.call);
    match &result.output {
        ToolOutput::Text { text, files } if files.is_empty() => {
            json!({"type": "tool_result", "tool_use_id": id, "content": text})
        }
        ToolOutput::Text { text, files } => {
            let text = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
            let content: Vec<Value> =
                text.into_iter().chain(files.iter().map(file_block)).collect();
            json!({"type": "tool_result", "tool_use_id": id, "content": content})
        }
        ToolOutput::Error { text } => {
            json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": true})
        }
    }
}

fn file_block(file: &ModelFile) -> Value {
    let kind = match file.mime.as_str() {
        mime if mime.starts_with("image/") => "image",
        "application/pdf" => "document",
        _ => return json!({"type": "text", "text": describe_unsent_file(file)}),
    };
    match file_source(file) {
        Some(FileSource::Inline(data)) => {
            let source = json!({"type": "base64", "media_type": file.mime, "data": data});
            json!({"type": kind, "source": source})
        }
        Some(FileSource::Web(url)) => json!({"type": kind, "source": {"type": "url", "url": url}}),
        None => json!({"type": "text", "text": describe_unsent_file(file)}),
    }
}
