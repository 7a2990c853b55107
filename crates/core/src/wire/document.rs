//! The export document: one session with all its messages and parts.

use serde_json::{Value, json};

use super::content::{message_info, parse_message, parse_part, part_info};
use super::figures::usage_of;
use super::session::{parse_session, session_info};
use super::shape::{self, Mode, ShapeError};
use crate::model::{Message, Part, Session, Usage};

/// One session with everything that was said in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The session.
    pub session: Session,
    /// Its messages, in order.
    pub messages: Vec<Entry>,
}

/// One message with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The message.
    pub message: Message,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// Returns the document in OpenCode's export shape; `usage` is the sum over the step-finish parts.
#[must_use]
pub fn document(document: &Document, usage: Usage) -> Value {
    let messages: Vec<Value> = document
        .messages
        .iter()
        .map(|entry| {
            let parts: Vec<Value> = entry.parts.iter().map(part_info).collect();
            json!({ "info": message_info(&entry.message), "parts": parts })
        })
        .collect();
    json!({ "info": session_info(&document.session, usage), "messages": messages })
}

/// Reads an export document; the session's usage base is counted from its step-finish parts.
///
/// # Errors
///
/// The first session, message or part that does not fit; a message of another session or a part of
/// another message.
pub fn parse_document(value: Value, mode: Mode) -> Result<Document, ShapeError> {
    const WHAT: &str = "session export";
    let mut map = shape::object(WHAT, value)?;
    let info = map
        .remove("info")
        .ok_or_else(|| ShapeError::new(WHAT, "no info"))?;
    let list: Vec<Value> = shape::take(WHAT, &mut map, "messages")?;
    let mut session = parse_session(info)?;
    let messages = list
        .into_iter()
        .map(|value| entry(value, mode, &session))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(base) = &mut session.usage_base {
        base.counted = counted(&messages);
    }
    Ok(Document { session, messages })
}

fn entry(value: Value, mode: Mode, session: &Session) -> Result<Entry, ShapeError> {
    const WHAT: &str = "message with parts";
    let mut map = shape::object(WHAT, value)?;
    let info = map
        .remove("info")
        .ok_or_else(|| ShapeError::new(WHAT, "no info"))?;
    let list: Vec<Value> = shape::take(WHAT, &mut map, "parts")?;
    let message = parse_message(info)?;
    if message.session != session.id {
        return Err(ShapeError::new(
            WHAT,
            format!("{} is of another session", message.id),
        ));
    }
    let mut parts = Vec::with_capacity(list.len());
    for value in list {
        let part = parse_part(value, mode)?;
        if part.session != session.id || part.message != message.id {
            return Err(ShapeError::new(
                WHAT,
                format!("{} is of another message", part.id),
            ));
        }
        parts.push(part);
    }
    Ok(Entry { message, parts })
}

fn counted(messages: &[Entry]) -> Usage {
    let parts = messages.iter().flat_map(|entry| &entry.parts);
    parts.fold(Usage::default(), |sum, part| sum.plus(usage_of(&part.body)))
}
