//! Messages and parts: the body with its ids inside.

use serde_json::Value;

use super::moment::{Precision, check_moments};
use super::parsing::{self, ParseMode, ShapeError};
use crate::id::{MessageId, SessionId};
use crate::model::{Message, Part, PartBody, UserMessage};

/// Returns a message as OpenCode shows it: the body, then `id` and `sessionID`.
#[must_use]
pub fn message_info(message: &Message) -> Value {
    let mut map = parsing::to_object(&message.body);
    map.insert("id".to_owned(), Value::from(message.id.as_str()));
    map.insert("sessionID".to_owned(), Value::from(message.session.as_str()));
    Value::Object(map)
}

/// Where a user message of an import keeps the tools it switches on or off: they are permission rules
/// (R38), and those of an import are not in effect until a person trusts them.
pub const IMPORTED_TOOLS: &str = "importedTools";

/// Returns a message as an export document holds it: tools an import brought are its tools again.
#[must_use]
pub fn message_export(message: &Message) -> Value {
    let mut shown = message_info(message);
    if let Value::Object(map) = &mut shown
        && let Some(tools) = map.remove(IMPORTED_TOOLS)
        && !map.contains_key("tools")
    {
        map.insert("tools".to_owned(), tools);
    }
    shown
}

/// Reads a message in OpenCode's form.
///
/// # Errors
///
/// A field of the wrong type, a missing field, an unknown role, an invalid id.
pub fn parse_message(value: Value) -> Result<Message, ShapeError> {
    const WHAT: &str = "message";
    let mut map = parsing::expect_object(WHAT, value)?;
    let id: MessageId = parsing::take_field(WHAT, &mut map, "id")?;
    let session: SessionId = parsing::take_field(WHAT, &mut map, "sessionID")?;
    check_moments(WHAT, &map, Precision::Any)?;
    let body = parsing::parse_value(WHAT, Value::Object(map))?;
    Ok(Message { id, session, body })
}

/// Returns the variant a user asked for: inside `model` today, at the top level in OpenCode 1.2.10.
#[must_use]
pub fn user_variant(user: &UserMessage) -> Option<&str> {
    let old = || user.extra.get("variant").and_then(Value::as_str);
    user.model.variant.as_deref().or_else(old)
}

/// Returns a part as OpenCode shows it: the body, then `id`, `sessionID` and `messageID`.
#[must_use]
pub fn part_info(part: &Part) -> Value {
    let mut map = parsing::to_object(&part.body);
    map.insert("id".to_owned(), Value::from(part.id.as_str()));
    map.insert("sessionID".to_owned(), Value::from(part.session.as_str()));
    map.insert("messageID".to_owned(), Value::from(part.message.as_str()));
    Value::Object(map)
}

/// Reads a part in OpenCode's form.
///
/// # Errors
///
/// A field of the wrong type, a missing field, an invalid id; an unknown type in
/// [`ParseMode::Strict`].
pub fn parse_part(value: Value, mode: ParseMode) -> Result<Part, ShapeError> {
    const WHAT: &str = "part";
    let mut map = parsing::expect_object(WHAT, value)?;
    let id = parsing::take_field(WHAT, &mut map, "id")?;
    let session = parsing::take_field(WHAT, &mut map, "sessionID")?;
    let message = parsing::take_field(WHAT, &mut map, "messageID")?;
    check_moments(WHAT, &map, Precision::Whole)?;
    let value = Value::Object(map);
    let body: PartBody = match mode {
        ParseMode::Strict => parsing::parse_value(WHAT, value)?,
        ParseMode::Lenient => {
            PartBody::parse_lenient(value).map_err(|e| ShapeError::new(WHAT, e))?
        }
    };
    Ok(Part { id, session, message, body })
}
