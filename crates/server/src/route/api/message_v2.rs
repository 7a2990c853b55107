//! Messages in the newer shape: one list of texts, thoughts and tool calls for each answer.

use serde::Serialize;
use serde_json::{Value, json};
use turnstone_store::MessageWithParts;

use crate::wire_json::{MessageResponse, StoredJson, message_response};

/// A message in the newer shape.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum MessageV2 {
    /// Of a person.
    User(Box<UserMessageV2>),
    /// Of a model.
    Assistant(Box<AssistantMessageV2>),
}

/// A prompt.
#[derive(Serialize)]
pub(super) struct UserMessageV2 {
    id: StoredJson,
    time: CreationTime,
    text: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<PromptFileV2>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agents: Vec<PromptAgentV2>,
}

/// When a message was created.
#[derive(Serialize)]
struct CreationTime {
    created: StoredJson,
}

/// A file of a prompt.
#[derive(Serialize)]
pub(super) struct PromptFileV2 {
    pub(super) uri: StoredJson,
    pub(super) mime: StoredJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<StoredJson>,
}

/// An agent a prompt names.
#[derive(Serialize)]
pub(super) struct PromptAgentV2 {
    pub(super) name: StoredJson,
}

/// An answer.
#[derive(Serialize)]
pub(super) struct AssistantMessageV2 {
    id: StoredJson,
    time: StoredJson,
    #[serde(rename = "type")]
    kind: &'static str,
    agent: StoredJson,
    model: AnswerModel,
    content: Vec<AnswerContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<AnswerSnapshot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<AnswerError>,
}

/// The model of an answer.
#[derive(Serialize)]
struct AnswerModel {
    id: StoredJson,
    #[serde(rename = "providerID")]
    provider: StoredJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<StoredJson>,
}

/// Why an answer or a tool call failed.
#[derive(Serialize)]
struct AnswerError {
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
}

impl AnswerError {
    fn new(message: Option<&str>) -> Self {
        Self { kind: "unknown", message: message.unwrap_or_default().to_owned() }
    }
}

/// The snapshots before and after the steps of an answer, and the files it changed.
#[derive(Serialize)]
struct AnswerSnapshot {
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<StoredJson>,
    files: Vec<StoredJson>,
}

/// A text, a thought or a tool call of an answer.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum AnswerContent {
    Text { id: StoredJson, text: StoredJson },
    Reasoning { id: StoredJson, text: StoredJson },
    Tool(Box<ToolContent>),
}

/// A tool call of an answer.
#[derive(Serialize)]
struct ToolContent {
    id: StoredJson,
    name: StoredJson,
    state: ToolStateV2,
    time: ToolTimes,
}

/// The state of a tool call.
#[derive(Serialize)]
struct ToolStateV2 {
    input: StoredJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Vec<ToolOutputV2>>,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<AnswerError>,
}

/// An output of a tool call.
#[derive(Serialize)]
struct ToolOutputV2 {
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
}

/// When a tool call was created, started and ended, and when its output was dropped.
#[derive(Serialize)]
struct ToolTimes {
    created: StoredJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    ran: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed: Option<StoredJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pruned: Option<StoredJson>,
}

impl MessageV2 {
    /// The newer shape of a stored message.
    pub(super) fn new(entry: &MessageWithParts) -> Self {
        let MessageResponse { info, parts } = message_response(entry);
        match info.0["role"] == "user" {
            true => Self::User(Box::new(user_message(&info, &parts))),
            false => Self::Assistant(Box::new(assistant_message(&info, &parts))),
        }
    }
}

fn parts_of_type<'p>(
    parts: &'p [StoredJson],
    kind: &'static str,
) -> impl DoubleEndedIterator<Item = &'p StoredJson> {
    parts.iter().filter(move |part| part.0["type"] == kind)
}

fn user_message(info: &StoredJson, parts: &[StoredJson]) -> UserMessageV2 {
    let written = parts_of_type(parts, "text").filter(|part| part.0["synthetic"] != true);
    let text: Vec<&str> = written.filter_map(|part| part.0["text"].as_str()).collect();
    let file = |part: &StoredJson| PromptFileV2 {
        uri: part.field("url"),
        mime: part.field("mime"),
        name: part.find("filename"),
    };
    let agent = |part: &StoredJson| PromptAgentV2 { name: part.field("name") };
    UserMessageV2 {
        id: info.field("id"),
        time: CreationTime { created: info.field("time").field("created") },
        text: text.join("\n"),
        kind: "user",
        files: parts_of_type(parts, "file").map(file).collect(),
        agents: parts_of_type(parts, "agent").map(agent).collect(),
    }
}

fn assistant_message(info: &StoredJson, parts: &[StoredJson]) -> AssistantMessageV2 {
    let mut tokens = info.find("tokens");
    if let Some(Value::Object(map)) = tokens.as_mut().map(|tokens| &mut tokens.0) {
        map.remove("total");
    }
    let error = info.0.get("error").map(|error| {
        AnswerError::new(error["data"]["message"].as_str().or(error["name"].as_str()))
    });
    AssistantMessageV2 {
        id: info.field("id"),
        time: info.field("time"),
        kind: "assistant",
        agent: info.field("agent"),
        model: AnswerModel {
            id: info.field("modelID"),
            provider: info.field("providerID"),
            variant: info.find("variant"),
        },
        content: parts.iter().filter_map(|part| answer_content(info, part)).collect(),
        snapshot: answer_snapshot(parts),
        finish: info.find("finish"),
        cost: info.find("cost"),
        tokens,
        error,
    }
}

fn answer_snapshot(parts: &[StoredJson]) -> Option<AnswerSnapshot> {
    let last = |kind| parts_of_type(parts, kind).next_back().and_then(|part| part.find("snapshot"));
    let (start, end) = (last("step-start"), last("step-finish"));
    let listed = parts_of_type(parts, "patch").filter_map(|part| part.0["files"].as_array());
    let files: Vec<StoredJson> = listed.flatten().cloned().map(StoredJson).collect();
    let is_empty = start.is_none() && end.is_none() && files.is_empty();
    (!is_empty).then_some(AnswerSnapshot { start, end, files })
}

fn answer_content(info: &StoredJson, part: &StoredJson) -> Option<AnswerContent> {
    let (id, text) = (part.field("id"), part.field("text"));
    match part.0["type"].as_str()? {
        "text" => Some(AnswerContent::Text { id, text }),
        "reasoning" => Some(AnswerContent::Reasoning { id, text }),
        "tool" => {
            let state = part.field("state");
            Some(AnswerContent::Tool(Box::new(ToolContent {
                id: part.field("callID"),
                name: part.field("tool"),
                time: tool_times(info, &state),
                state: tool_state(&state),
            })))
        }
        _ => None,
    }
}

fn tool_state(state: &StoredJson) -> ToolStateV2 {
    let table = |key: &str| match state.0[key].is_object() {
        true => state.field(key),
        false => StoredJson(json!({})),
    };
    let status = state.0["status"].as_str().unwrap_or("pending");
    let output = state.0["output"].as_str();
    let output = output.map(|text| vec![ToolOutputV2 { kind: "text", text: text.to_owned() }]);
    let (input, structured, content) = match status {
        "pending" => (StoredJson(state.0["raw"].as_str().unwrap_or_default().into()), None, output),
        _ => (table("input"), Some(table("metadata")), Some(output.unwrap_or_default())),
    };
    let error = (status == "error").then(|| AnswerError::new(state.0["error"].as_str()));
    ToolStateV2 { input, structured, content, status: status.to_owned(), error }
}

fn tool_times(info: &StoredJson, state: &StoredJson) -> ToolTimes {
    let time = state.field("time");
    let created = time.find("start").unwrap_or_else(|| info.field("time").field("created"));
    ToolTimes {
        created,
        ran: time.find("start"),
        completed: time.find("end"),
        pruned: time.find("compacted"),
    }
}
