//! Encodes requests for OpenAI's responses.

use serde_json::{Map, Value, json};
use turnstone_core::context::{
    AssistantContent, ModelFile, ModelMessage, ToolOutput, ToolResult, UserContent,
};

use super::answer::ResponsesAnswerDecoder;
use crate::model::{ModelRequest, ToolChoice};
use crate::wire::file_content::{FileSource, describe_unsent_file, file_source};
use crate::wire::json_merge::apply_options;
use crate::wire::provider_settings::ProviderSettings;
use crate::wire::tool_schema::reduce_schema;
use crate::wire::wire_format::{AnswerDecoder, EncodedRequest, WireFormat};

/// Where options go that have another name on this wire.
const OPTION_NAMES: [(&str, &[&str]); 8] = [
    ("reasoningEffort", &["reasoning", "effort"]),
    ("reasoningSummary", &["reasoning", "summary"]),
    ("textVerbosity", &["text", "verbosity"]),
    ("promptCacheKey", &["prompt_cache_key"]),
    ("serviceTier", &["service_tier"]),
    ("parallelToolCalls", &["parallel_tool_calls"]),
    ("maxToolCalls", &["max_tool_calls"]),
    ("safetyIdentifier", &["safety_identifier"]),
];

/// OpenAI's responses.
pub(in crate::wire) struct ResponsesFormat;

impl WireFormat for ResponsesFormat {
    fn encode(&self, request: &ModelRequest, settings: &ProviderSettings) -> EncodedRequest {
        let is_reasoning = is_reasoning_model(&request.model);
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(request.model));
        body.insert("input".to_owned(), Value::Array(input(request, is_reasoning)));
        body.insert("store".to_owned(), json!(false));
        if is_reasoning {
            body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
            body.insert("reasoning".to_owned(), json!({"summary": "auto"}));
        } else {
            for (name, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
                if let Some(value) = value {
                    body.insert(name.to_owned(), json!(value));
                }
            }
        }
        body.insert("prompt_cache_key".to_owned(), json!(request.session));
        if let Some(limit) = request.max_output_tokens {
            body.insert("max_output_tokens".to_owned(), json!(limit));
        }
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                let parameters = reduce_schema(&tool.parameters);
                json!({"type": "function", "name": tool.name, "description": tool.description,
                       "parameters": parameters, "strict": false})
            });
            body.insert("tools".to_owned(), tools.collect());
            let choice = match request.tool_choice {
                ToolChoice::Auto => "auto",
                ToolChoice::Required => "required",
                ToolChoice::None => "none",
            };
            body.insert("tool_choice".to_owned(), json!(choice));
        }
        apply_options(&mut body, &request.options, &OPTION_NAMES);
        body.insert("stream".to_owned(), json!(true));
        let key = settings.key.as_ref().filter(|key| !key.is_empty());
        let key_header = key.map(|key| match settings.provider.as_str() {
            "azure" => ("api-key".to_owned(), key.clone()),
            _ => ("authorization".to_owned(), format!("Bearer {key}")),
        });
        EncodedRequest { route: "responses".to_owned(), headers: Vec::new(), key_header, body }
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<ResponsesAnswerDecoder>::default()
    }
}

/// Returns true for OpenAI's models that reason: they accept no temperature, and return reasoning.
pub(in crate::wire) fn is_reasoning_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let families = ["o1", "o3", "o4", "gpt-5", "gpt-oss", "codex", "computer-use"];
    families.iter().any(|family| name.starts_with(family)) && !name.starts_with("gpt-5-chat")
}

fn input(request: &ModelRequest, is_reasoning: bool) -> Vec<Value> {
    let mut items = Vec::new();
    let system = request.system.join("\n\n");
    if !system.is_empty() {
        let role = if is_reasoning { "developer" } else { "system" };
        items.push(json!({"role": role, "content": system}));
    }
    for message in &request.messages {
        match message {
            ModelMessage::User(content) => {
                let content: Vec<Value> = content.iter().map(user_part).collect();
                items.push(json!({"role": "user", "content": content}));
            }
            ModelMessage::Assistant(content) => add_answer(content, &mut items),
            ModelMessage::Tool(results) => items.extend(results.iter().map(result_item)),
        }
    }
    items
}

/// Adds the items of an answer in their order. Parts of one item of reasoning are joined again.
fn add_answer(content: &[AssistantContent], items: &mut Vec<Value>) {
    let mut open: Option<(Value, usize)> = None;
    for part in content {
        match part {
            AssistantContent::Text { text, .. } => {
                open = None;
                let content = json!([{"type": "output_text", "text": text}]);
                items.push(json!({"role": "assistant", "content": content}));
            }
            AssistantContent::Reasoning { text, metadata } => {
                let metadata = metadata.as_ref().unwrap_or(&Value::Null);
                let by_provider = [&metadata["openai"], &metadata["azure"]];
                let metadata =
                    by_provider.into_iter().find(|known| !known.is_null()).unwrap_or(&Value::Null);
                let (id, encrypted) = (&metadata["itemId"], &metadata["reasoningEncryptedContent"]);
                let known = open.as_ref().filter(|(known, _)| known == id && !id.is_null());
                let position = known.map_or(items.len(), |(_, position)| *position);
                if position == items.len() {
                    items.push(
                        json!({"type": "reasoning", "encrypted_content": null, "summary": []}),
                    );
                }
                open = Some((id.clone(), position));
                let Some(item) = items.get_mut(position) else { continue };
                if encrypted.is_string() {
                    item["encrypted_content"] = encrypted.clone();
                }
                if let (Value::Array(summary), false) = (&mut item["summary"], text.is_empty()) {
                    summary.push(json!({"type": "summary_text", "text": text}));
                }
            }
            AssistantContent::ToolCall { call, tool, input, .. } => {
                open = None;
                let arguments = input.to_string();
                items.push(json!({"type": "function_call", "call_id": call, "name": tool,
                                  "arguments": arguments}));
            }
        }
    }
    // What is not stored at the provider means something only with its encrypted content.
    items.retain(|item| item["type"] != "reasoning" || item["encrypted_content"].is_string());
}

fn result_item(result: &ToolResult) -> Value {
    let output = match &result.output {
        ToolOutput::Text { text, files } if files.is_empty() => json!(text),
        ToolOutput::Text { text, files } => {
            let text = json!({"type": "input_text", "text": text});
            std::iter::once(text).chain(files.iter().map(file_part)).collect()
        }
        ToolOutput::Error { text } => json!(text),
    };
    json!({"type": "function_call_output", "call_id": result.call, "output": output})
}

fn user_part(part: &UserContent) -> Value {
    match part {
        UserContent::Text { text } => json!({"type": "input_text", "text": text}),
        UserContent::File(file) => file_part(file),
    }
}

fn file_part(file: &ModelFile) -> Value {
    match (file_source(file), file.mime.as_str()) {
        (Some(_), mime) if mime.starts_with("image/") => {
            json!({"type": "input_image", "image_url": file.url})
        }
        (Some(FileSource::Inline(_)), "application/pdf") => {
            let name = file.filename.as_deref().unwrap_or("document.pdf");
            json!({"type": "input_file", "filename": name, "file_data": file.url})
        }
        (Some(FileSource::Web(url)), "application/pdf") => {
            json!({"type": "input_file", "file_url": url})
        }
        _ => json!({"type": "input_text", "text": describe_unsent_file(file)}),
    }
}
