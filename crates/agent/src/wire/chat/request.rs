//! Encodes requests for chat completions.

use serde_json::{Map, Value, json};
use turnstone_core::context::{
    AssistantContent, ModelFile, ModelMessage, ToolOutput, ToolResult, UserContent,
};

use super::answer::ChatAnswerDecoder;
use crate::model::{ModelRequest, ToolChoice, ToolSchema};
use crate::wire::call_ids::{plain_call_id, short_call_id};
use crate::wire::file_content::{FileSource, describe_unsent_file, file_source};
use crate::wire::json_merge::apply_options;
use crate::wire::provider_settings::ProviderSettings;
use crate::wire::wire_format::{AnswerDecoder, EncodedRequest, WireFormat};

/// Where options go that have another name on this wire.
const OPTION_NAMES: [(&str, &[&str]); 3] = [
    ("reasoningEffort", &["reasoning_effort"]),
    ("textVerbosity", &["verbosity"]),
    ("promptCacheKey", &["prompt_cache_key"]),
];

/// Chat completions.
pub(in crate::wire) struct ChatFormat;

impl WireFormat for ChatFormat {
    fn encode(&self, request: &ModelRequest, settings: &ProviderSettings) -> EncodedRequest {
        let dialect = ChatDialect::of(request, settings);
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(request.model));
        body.insert("messages".to_owned(), Value::Array(dialect.messages(request)));
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| dialect.tool(tool)).collect();
            body.insert("tools".to_owned(), Value::Array(tools));
            let choice = match request.tool_choice {
                ToolChoice::Auto => "auto",
                ToolChoice::Required => "required",
                ToolChoice::None => "none",
            };
            body.insert("tool_choice".to_owned(), json!(choice));
        }
        if let Some(limit) = request.max_output_tokens {
            let name =
                if dialect.has_reasoning_limit { "max_completion_tokens" } else { "max_tokens" };
            body.insert(name.to_owned(), json!(limit));
        }
        if let Some(temperature) = request.temperature {
            body.insert("temperature".to_owned(), json!(temperature));
        }
        if let Some(top_p) = request.top_p {
            body.insert("top_p".to_owned(), json!(top_p));
        }
        if settings.sets_cache_key {
            body.insert("prompt_cache_key".to_owned(), json!(request.session));
        }
        apply_options(&mut body, &request.options, &OPTION_NAMES);
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        let key = settings.key.as_ref().filter(|key| !key.is_empty());
        let key_header = key.map(|key| match settings.provider.as_str() {
            "azure" => ("api-key".to_owned(), key.clone()),
            _ => ("authorization".to_owned(), format!("Bearer {key}")),
        });
        EncodedRequest {
            route: "chat/completions".to_owned(),
            headers: Vec::new(),
            key_header,
            body,
        }
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::<ChatAnswerDecoder>::default()
    }
}

/// What some providers and models do differently.
struct ChatDialect {
    /// In which field reasoning returns; `None` where the provider refuses it.
    reasoning_field: Option<String>,
    /// The field is there even without reasoning.
    is_reasoning_required: bool,
    call_ids: CallIdRule,
    /// A person cannot speak right after a tool.
    needs_answer_after_tools: bool,
    /// A schema with `$ref` holds nothing else.
    has_bare_refs: bool,
    /// The limit of tokens includes the reasoning and has a name of its own.
    has_reasoning_limit: bool,
}

#[derive(Clone, Copy)]
enum CallIdRule {
    Unchanged,
    Plain,
    Short,
}

impl ChatDialect {
    fn of(request: &ModelRequest, settings: &ProviderSettings) -> Self {
        let (provider, model) = (settings.provider.to_lowercase(), request.model.to_lowercase());
        let is = |name: &str| provider.contains(name) || model.contains(name);
        let is_mistral = provider.contains("mistral") || is("mistral") || is("devstral");
        let reasoning_field = match settings.reasoning_fields.get(&request.model) {
            Some(field) => Some(field.clone()),
            None if provider == "mistral" => None,
            None if provider == "openrouter" => Some("reasoning".to_owned()),
            None => Some("reasoning_content".to_owned()),
        };
        let is_openai = matches!(provider.as_str(), "openai" | "azure");
        let call_ids = match (is_mistral, is("claude")) {
            (true, _) => CallIdRule::Short,
            (false, true) => CallIdRule::Plain,
            (false, false) => CallIdRule::Unchanged,
        };
        Self {
            // OpenRouter's reasoning returns as `reasoning_details` where there are any.
            is_reasoning_required: is("deepseek") && reasoning_field.is_some(),
            reasoning_field,
            call_ids,
            needs_answer_after_tools: is_mistral,
            has_bare_refs: is("moonshot") || is("kimi"),
            has_reasoning_limit: is_openai && super::super::responses::is_reasoning_model(&model),
        }
    }

    fn call_id(&self, call: &str) -> String {
        match self.call_ids {
            CallIdRule::Unchanged => call.to_owned(),
            CallIdRule::Plain => plain_call_id(call),
            CallIdRule::Short => short_call_id(call),
        }
    }

    fn messages(&self, request: &ModelRequest) -> Vec<Value> {
        let mut messages: Vec<Value> = Vec::new();
        let system = request.system.join("\n\n");
        if !system.is_empty() {
            messages.push(json!({"role": "system", "content": system}));
        }
        for message in &request.messages {
            match message {
                ModelMessage::User(content) => {
                    let is_after_tool =
                        messages.last().is_some_and(|message| message["role"] == "tool");
                    if self.needs_answer_after_tools && is_after_tool {
                        messages.push(json!({"role": "assistant", "content": "Done."}));
                    }
                    messages.push(json!({"role": "user", "content": user_content(content)}));
                }
                ModelMessage::Assistant(content) => messages.push(self.assistant_message(content)),
                ModelMessage::Tool(results) => self.add_results(results, &mut messages),
            }
        }
        messages
    }

    fn assistant_message(&self, content: &[AssistantContent]) -> Value {
        let (mut text, mut reasoning) = (String::new(), String::new());
        let (mut calls, mut details) = (Vec::new(), Vec::new());
        for part in content {
            let (AssistantContent::Text { metadata, .. }
            | AssistantContent::Reasoning { metadata, .. }
            | AssistantContent::ToolCall { metadata, .. }) = part;
            let metadata = metadata.as_ref().unwrap_or(&Value::Null);
            if let Value::Array(known) = &metadata["openrouter"]["reasoning_details"] {
                details.extend(known.iter().cloned());
            }
            match part {
                AssistantContent::Text { text: said, .. } => text.push_str(said),
                AssistantContent::Reasoning { text: said, .. } => reasoning.push_str(said),
                AssistantContent::ToolCall { call, tool, input, .. } => {
                    let function = json!({"name": tool, "arguments": input.to_string()});
                    let mut entry =
                        json!({"id": self.call_id(call), "type": "function", "function": function});
                    if let Value::String(signature) = &metadata["google"]["thoughtSignature"] {
                        entry["extra_content"]["google"]["thought_signature"] = json!(signature);
                    }
                    calls.push(entry);
                }
            }
        }
        let mut message = json!({"role": "assistant", "content": text});
        if let Some(field) = &self.reasoning_field
            && (self.is_reasoning_required || !reasoning.is_empty())
        {
            message[field.as_str()] = json!(reasoning);
        }
        if !details.is_empty() {
            message["reasoning_details"] = Value::Array(details);
        }
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        message
    }

    /// Adds results; their files follow in a message of the user, because results are text here.
    fn add_results(&self, results: &[ToolResult], messages: &mut Vec<Value>) {
        let mut files = Vec::new();
        for result in results {
            let text = match &result.output {
                ToolOutput::Text { text, files: more } => {
                    files.extend(more.iter().map(file_part));
                    text
                }
                ToolOutput::Error { text } => text,
            };
            let call = self.call_id(&result.call);
            messages.push(json!({"role": "tool", "tool_call_id": call, "content": text}));
        }
        if !files.is_empty() {
            if self.needs_answer_after_tools {
                messages.push(json!({"role": "assistant", "content": "Done."}));
            }
            messages.push(json!({"role": "user", "content": files}));
        }
    }

    fn tool(&self, tool: &ToolSchema) -> Value {
        let mut parameters = tool.parameters.clone();
        if self.has_bare_refs {
            strip_next_to_refs(&mut parameters);
        }
        let ToolSchema { name, description, .. } = tool;
        let function = json!({"name": name, "description": description, "parameters": parameters});
        json!({"type": "function", "function": function})
    }
}

fn user_content(content: &[UserContent]) -> Value {
    if let [UserContent::Text { text }] = content {
        return json!(text);
    }
    let part = |part: &UserContent| match part {
        UserContent::Text { text } => json!({"type": "text", "text": text}),
        UserContent::File(file) => file_part(file),
    };
    content.iter().map(part).collect()
}

fn file_part(file: &ModelFile) -> Value {
    let source = file_source(file);
    let format = file.mime.strip_prefix("audio/").map(|kind| match kind {
        "mpeg" | "mp3" => "mp3",
        _ => "wav",
    });
    match (source, file.mime.as_str(), format) {
        (Some(_), mime, _) if mime.starts_with("image/") => {
            json!({"type": "image_url", "image_url": {"url": file.url}})
        }
        (Some(FileSource::Inline(data)), _, Some(format)) => {
            json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})
        }
        (Some(FileSource::Inline(_)), "application/pdf", _) => {
            let name = file.filename.as_deref().unwrap_or("document.pdf");
            json!({"type": "file", "file": {"filename": name, "file_data": file.url}})
        }
        _ => json!({"type": "text", "text": describe_unsent_file(file)}),
    }
}

/// Removes what stands next to a `$ref`.
fn strip_next_to_refs(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("$ref") {
                fields.retain(|name, _| name == "$ref");
            }
            fields.values_mut().for_each(strip_next_to_refs);
        }
        Value::Array(list) => list.iter_mut().for_each(strip_next_to_refs),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
