//! Messages.

use serde_json::{Map, Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Message, MessageBody};
use turnstone_core::wire::{self, Precision};

use super::json_field::{ConversionError, into_object, map_own_id, map_reference, set_if_missing};
use super::project_data::complete_line_counts;
use crate::foreign_id::map_foreign_id;

/// What the messages before one say, from which an older message is completed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrecedingMessages {
    /// The newest user message.
    user: Option<MessageId>,
    /// The newest model, as `(provider, model)`.
    model: Option<(String, String)>,
    /// The newest agent.
    agent: Option<String>,
    /// Where the session works.
    directory: String,
}

impl PrecedingMessages {
    /// No message yet, in a session that works in `directory`.
    pub(crate) fn in_directory(directory: &str) -> Self {
        Self { directory: directory.to_owned(), ..Self::default() }
    }

    /// Remembers what `message` says.
    pub(crate) fn record(&mut self, message: &Message) {
        match &message.body {
            MessageBody::User(user) => {
                self.user = Some(message.id.clone());
                self.agent = Some(user.agent.clone());
                self.model = Some((user.model.provider.clone(), user.model.model.clone()));
            }
            MessageBody::Assistant(assistant) => {
                self.agent = Some(assistant.mode.clone());
                self.model = Some((assistant.provider.clone(), assistant.model.clone()));
            }
        }
    }
}

/// A message of `session`; true if fields had to be filled in.
pub(crate) fn convert_message(
    id: &str,
    session: &SessionId,
    (body, created): (Value, Option<i64>),
    near: &PrecedingMessages,
) -> Result<(Message, bool), ConversionError> {
    let mut map = into_object(body, &["id", "sessionID", wire::IMPORTED_TOOLS])?;
    if map.contains_key("metadata") && map.contains_key("parts") {
        return Err("a message of OpenCode before 0.4, with its parts inside".to_owned());
    }
    let own_id: MessageId = map_own_id(id, &mut map)?;
    let mut filled = complete_time(&mut map, created);
    filled |= wire::repair_moments(&mut map, Precision::Any);
    match map.get("role").and_then(Value::as_str) {
        Some("user") => filled |= complete_user(&mut map, near),
        Some("assistant") => filled |= complete_assistant(&mut map, id, near),
        Some(role) => return Err(format!("unknown role {role:?}")),
        None => return Err("the message has no role".to_owned()),
    }
    map.insert("id".to_owned(), Value::String(own_id.to_string()));
    map.insert("sessionID".to_owned(), Value::String(session.to_string()));
    let message = wire::parse_message(Value::Object(map)).map_err(|error| error.reason)?;
    Ok((message, filled))
}

fn complete_time(map: &mut Map<String, Value>, created: Option<i64>) -> bool {
    if !map.get("time").is_some_and(Value::is_object) {
        map.insert("time".to_owned(), json!({}));
    }
    let time = map.get_mut("time").and_then(Value::as_object_mut);
    time.is_some_and(|time| set_if_missing(time, "created", json!(created.unwrap_or(0))))
}

fn complete_user(map: &mut Map<String, Value>, near: &PrecedingMessages) -> bool {
    let agent = near.agent.clone().unwrap_or_else(|| "build".to_owned());
    let (provider, model) = near.model.clone().unwrap_or_default();
    let mut filled = set_if_missing(map, "agent", Value::String(agent));
    filled |= set_if_missing(map, "model", json!({ "providerID": provider, "modelID": model }));
    if let Some(summary) = map.get_mut("summary").and_then(Value::as_object_mut) {
        let diffs = summary.remove("diffs").filter(|diffs| !diffs.is_null());
        summary
            .insert("diffs".to_owned(), complete_line_counts(diffs.unwrap_or_else(|| json!([]))));
    }
    filled
}

fn complete_assistant(map: &mut Map<String, Value>, id: &str, near: &PrecedingMessages) -> bool {
    map_reference::<MessageId>(map, "parentID");
    // A parent nobody knows stays one nobody knows: an id of its own, made from the message's.
    let unknown =
        || map_foreign_id::<MessageId>(&format!("parent of {id}")).map(|fitted| fitted.id);
    let parent = near.user.clone().or_else(unknown).map(String::from);
    let mut filled = set_if_missing(map, "parentID", json!(parent));
    let agent = map.get("agent").and_then(Value::as_str).map(str::to_owned);
    let agent = agent.or_else(|| near.agent.clone()).unwrap_or_else(|| "build".to_owned());
    let (provider, model) = near.model.clone().unwrap_or_default();
    filled |= set_if_missing(map, "mode", Value::String(agent));
    filled |= set_if_missing(map, "providerID", Value::String(provider));
    filled |= set_if_missing(map, "modelID", Value::String(model));
    filled |= set_if_missing(map, "path", json!({ "cwd": near.directory, "root": near.directory }));
    filled |= set_if_missing(map, "cost", json!(0));
    filled | complete_tokens(map)
}

/// Completes the token counts under `tokens`.
pub(super) fn complete_tokens(map: &mut Map<String, Value>) -> bool {
    let mut filled = set_if_missing(map, "tokens", json!({}));
    let Some(tokens) = map.get_mut("tokens").and_then(Value::as_object_mut) else {
        return filled;
    };
    for key in ["input", "output", "reasoning"] {
        filled |= set_if_missing(tokens, key, json!(0));
    }
    filled |= set_if_missing(tokens, "cache", json!({}));
    if let Some(cache) = tokens.get_mut("cache").and_then(Value::as_object_mut) {
        filled |= set_if_missing(cache, "read", json!(0));
        filled |= set_if_missing(cache, "write", json!(0));
    }
    filled
}
