//! What a request says about the conversation, on each wire.

use serde_json::Value;

use super::script::ModelScript;
use super::server::ServedWire;

/// A message, as far as a script needs it.
enum ScriptedMessage {
    User(String),
    Model,
    Result,
}

/// The script that a request follows, and where it is in it.
pub(super) struct ScriptPosition {
    pub(super) script: ModelScript,
    pub(super) turn: usize,
}

/// Finds the newest prompt with a script and counts the answers since.
pub(super) fn find_position(wire: ServedWire, body: &Value) -> Option<ScriptPosition> {
    let messages = read_messages(wire, body);
    let (prompt, script) = messages.iter().enumerate().rev().find_map(|(at, message)| {
        let ScriptedMessage::User(text) = message else { return None };
        Some((at, ModelScript::find_in(text)?))
    })?;
    let mut turn = 0;
    let mut is_in_answer = false;
    for message in messages.iter().skip(prompt + 1) {
        let is_model = matches!(message, ScriptedMessage::Model);
        turn += usize::from(is_model && !is_in_answer);
        is_in_answer = is_model;
    }
    Some(ScriptPosition { script, turn })
}

/// Tells whether a request offers tools; titles and summaries do not.
pub(super) fn has_tools(body: &Value) -> bool {
    body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

fn read_messages(wire: ServedWire, body: &Value) -> Vec<ScriptedMessage> {
    let list = match wire {
        ServedWire::Chat | ServedWire::Anthropic => &body["messages"],
        ServedWire::Responses => &body["input"],
        ServedWire::Gemini => &body["contents"],
    };
    list.as_array().into_iter().flatten().filter_map(read_message).collect()
}

fn read_message(message: &Value) -> Option<ScriptedMessage> {
    let content = match (&message["content"], &message["parts"]) {
        (Value::Null, parts) => parts,
        (content, _) => content,
    };
    match (message["role"].as_str(), message["type"].as_str()) {
        (Some("user"), _) => {
            let text = text_of(content);
            let is_result = text.is_empty();
            Some(if is_result { ScriptedMessage::Result } else { ScriptedMessage::User(text) })
        }
        (Some("assistant" | "model"), _) | (None, Some("reasoning" | "function_call")) => {
            Some(ScriptedMessage::Model)
        }
        (Some("tool"), _) | (None, Some("function_call_output")) => Some(ScriptedMessage::Result),
        // System prompts.
        (_, _) => None,
    }
}

fn text_of(content: &Value) -> String {
    if let Value::String(text) = content {
        return text.clone();
    }
    let parts = content.as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}
