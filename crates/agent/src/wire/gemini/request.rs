//! Encodes requests for Gemini.

use serde_json::{Map, Value, json};
use turnstone_core::context::{
    AssistantContent, ModelFile, ModelMessage, ToolOutput, ToolResult, UserContent,
};

use super::answer::GeminiAnswerDecoder;
use crate::model::{ModelRequest, ToolChoice, ToolSchema};
use crate::wire::file_content::{FileSource, describe_unsent_file, file_source};
use crate::wire::json_merge::apply_options;
use crate::wire::provider_settings::ProviderSettings;
use crate::wire::tool_schema::to_gemini_schema;
use crate::wire::wire_format::{AnswerDecoder, EncodedRequest, WireFormat};

/// Options that belong to the request itself; all others belong to its generation.
const REQUEST_OPTIONS: [&str; 3] = ["safetySettings", "cachedContent", "labels"];

/// Gemini.
pub(in crate::wire) struct GeminiFormat;

impl WireFormat for GeminiFormat {
    fn encode(&self, request: &ModelRequest, settings: &ProviderSettings) -> EncodedRequest {
        let mut body = Map::new();
        let contents = request.messages.iter().flat_map(contents).collect();
        body.insert("contents".to_owned(), Value::Array(contents));
        let system = request.system.iter().filter(|text| !text.is_empty());
        let system: Vec<Value> = system.map(|text| json!({"text": text})).collect();
        if !system.is_empty() {
            body.insert("systemInstruction".to_owned(), json!({"parts": system}));
        }
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request.tools.iter().map(declaration).collect();
            body.insert("tools".to_owned(), json!([{"functionDeclarations": tools}]));
            let mode = match request.tool_choice {
                ToolChoice::Auto => "AUTO",
                ToolChoice::Required => "ANY",
                ToolChoice::None => "NONE",
            };
            body.insert("toolConfig".to_owned(), json!({"functionCallingConfig": {"mode": mode}}));
        }
        let mut generation = Map::new();
        let numbers = [
            ("maxOutputTokens", request.max_output_tokens.map(|limit| json!(limit))),
            ("temperature", request.temperature.map(|value| json!(value))),
            ("topP", request.top_p.map(|value| json!(value))),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                generation.insert(name.to_owned(), value);
            }
        }
        let is_own = |name: &String| REQUEST_OPTIONS.contains(&name.as_str());
        let (own, others): (Vec<_>, Vec<_>) =
            request.options.clone().into_iter().partition(|(name, _)| is_own(name));
        apply_options(&mut generation, &others.into_iter().collect(), &[]);
        body.insert("generationConfig".to_owned(), Value::Object(generation));
        body.extend(own);
        let key = settings.key.as_ref().filter(|key| !key.is_empty());
        let model = request.model.strip_prefix("models/").unwrap_or(&request.model);
        EncodedRequest {
            route: format!("models/{model}:streamGenerateContent?alt=sse"),
            headers: Vec::new(),
            key_header: key.map(|key| ("x-goog-api-key".to_owned(), key.clone())),
            body,
        }
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<GeminiAnswerDecoder>::default()
    }
}

fn declaration(tool: &ToolSchema) -> Value {
    let mut declared = json!({"name": tool.name, "description": tool.description});
    // A tool without parameters has no schema: an object without properties is refused.
    let has_properties =
        tool.parameters["properties"].as_object().is_some_and(|known| !known.is_empty());
    if has_properties {
        declared["parameters"] = to_gemini_schema(&tool.parameters);
    }
    declared
}

fn contents(message: &ModelMessage) -> Vec<Value> {
    let content = |role: &str, parts: Vec<Value>| {
        let is_empty = parts.is_empty();
        (!is_empty).then(|| json!({"role": role, "parts": parts}))
    };
    let (first, second) = match message {
        ModelMessage::User(parts) => (content("user", parts.iter().map(user_part).collect()), None),
        ModelMessage::Assistant(parts) => {
            (content("model", parts.iter().filter_map(model_part).collect()), None)
        }
        ModelMessage::Tool(results) => {
            let answers = results.iter().map(response_part).collect();
            let files = results.iter().flat_map(result_files).map(file_part).collect();
            (content("user", answers), content("user", files))
        }
    };
    first.into_iter().chain(second).collect()
}

fn user_part(part: &UserContent) -> Value {
    match part {
        UserContent::Text { text } => json!({"text": text}),
        UserContent::File(file) => file_part(file),
    }
}

fn model_part(part: &AssistantContent) -> Option<Value> {
    let (AssistantContent::Text { metadata, .. }
    | AssistantContent::Reasoning { metadata, .. }
    | AssistantContent::ToolCall { metadata, .. }) = part;
    let metadata = metadata.as_ref().unwrap_or(&Value::Null);
    let signature = &metadata["google"]["thoughtSignature"];
    let mut encoded = match part {
        AssistantContent::Text { text, .. } => json!({"text": text}),
        // Thoughts are of use only to the model that signed them.
        AssistantContent::Reasoning { .. } if !signature.is_string() => return None,
        AssistantContent::Reasoning { text, .. } => json!({"text": text, "thought": true}),
        AssistantContent::ToolCall { tool, input, .. } => {
            let args = if input.is_object() { input.clone() } else { json!({"arguments": input}) };
            json!({"functionCall": {"name": tool, "args": args}})
        }
    };
    if signature.is_string() {
        encoded["thoughtSignature"] = signature.clone();
    }
    Some(encoded)
}

fn response_part(result: &ToolResult) -> Value {
    let response = match &result.output {
        ToolOutput::Text { text, .. } => json!({"output": text}),
        ToolOutput::Error { text } => json!({"error": text}),
    };
    json!({"functionResponse": {"name": result.tool, "response": response}})
}

fn result_files(result: &ToolResult) -> &[ModelFile] {
    match &result.output {
        ToolOutput::Text { files, .. } => files,
        ToolOutput::Error { .. } => &[],
    }
}

fn file_part(file: &ModelFile) -> Value {
    match file_source(file) {
        Some(FileSource::Inline(data)) => {
            json!({"inlineData": {"mimeType": file.mime, "data": data}})
        }
        Some(FileSource::Web(url)) => json!({"fileData": {"mimeType": file.mime, "fileUri": url}}),
        None => json!({"text": describe_unsent_file(file)}),
    }
}
