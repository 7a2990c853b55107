//! The export document: one session with all its messages and parts.

use serde_json::{Value, json};

use super::content::{message_export, parse_message, parse_part, part_info};
use super::figures::usage_of;
use super::session::{parse_session, session_export};
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
            json!({ "info": message_export(&entry.message), "parts": parts })
        })
        .collect();
    json!({ "info": session_export(&document.session, usage), "messages": messages })
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
    let info = map.remove("info").ok_or_else(|| ShapeError::new(WHAT, "no info"))?;
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
    let info = map.remove("info").ok_or_else(|| ShapeError::new(WHAT, "no info"))?;
    let list: Vec<Value> = shape::take(WHAT, &mut map, "parts")?;
    let message = parse_message(info)?;
    if message.session != session.id {
        return Err(ShapeError::new(WHAT, format!("{} is of another session", message.id)));
    }
    let mut parts = Vec::with_capacity(list.len());
    for value in list {
        let part = parse_part(value, mode)?;
        if part.session != session.id || part.message != message.id {
            return Err(ShapeError::new(WHAT, format!("{} is of another message", part.id)));
        }
        parts.push(part);
    }
    Ok(Entry { message, parts })
}

fn counted(messages: &[Entry]) -> Usage {
    let parts = messages.iter().flat_map(|entry| &entry.parts);
    parts.fold(Usage::default(), |sum, part| sum.plus(usage_of(&part.body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        let tokens =
            json!({ "input": 10, "output": 2, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
        let ids = |id: &str, mut body: Value| {
            body["id"] = json!(id);
            body["sessionID"] = json!("ses_a");
            body["messageID"] = json!("msg_a");
            body
        };
        json!({
            "info": { "id": "ses_a", "slug": "s", "projectID": "p", "directory": "/w", "title": "t",
                      "version": "1", "cost": 0.0071400000000000005, "tokens": tokens.clone(),
                      "time": { "created": 1, "updated": 2 }, "later": [1] },
            "messages": [{
                "info": { "id": "msg_a", "sessionID": "ses_a", "role": "user", "agent": "build",
                          "time": { "created": 1.5 }, "variant": "high",
                          "model": { "providerID": "p", "modelID": "m" } },
                "parts": [
                    ids("prt_a", json!({ "type": "text", "text": "hi", "later": null })),
                    ids("prt_b", json!({ "type": "step-finish", "reason": "stop", "cost": 0.5, "tokens": tokens })),
                ],
            }],
        })
    }

    #[test]
    fn a_document_is_written_as_it_was_read() -> Result<(), ShapeError> {
        let read = parse_document(sample(), Mode::Strict)?;
        let usage = counted(&read.messages);
        assert_eq!(document(&read, usage), sample());
        Ok(())
    }

    #[test]
    fn imported_figures_are_shown_exactly_until_the_parts_add_up_to_something_else()
    -> Result<(), ShapeError> {
        let read = parse_document(sample(), Mode::Strict)?;
        let usage = counted(&read.messages);
        let shown = document(&read, usage.plus(usage));
        assert_eq!(shown["info"]["cost"], json!(0.50714));
        assert_eq!(shown["info"]["tokens"]["input"], json!(20));
        Ok(())
    }

    #[test]
    fn an_unknown_part_is_refused_from_clients_and_kept_from_imports() -> Result<(), ShapeError> {
        let mut value = sample();
        value["messages"][0]["parts"][0]["type"] = json!("hologram");
        assert!(parse_document(value.clone(), Mode::Strict).is_err());
        let read = parse_document(value.clone(), Mode::Lenient)?;
        assert_eq!(document(&read, counted(&read.messages)), value);
        Ok(())
    }

    #[test]
    fn what_belongs_to_another_session_or_message_is_refused() {
        for pointer in ["/messages/0/info/sessionID", "/messages/0/parts/0/sessionID"] {
            let mut value = sample();
            if let Some(id) = value.pointer_mut(pointer) {
                *id = json!("ses_other");
            }
            assert!(parse_document(value, Mode::Lenient).is_err(), "{pointer}");
        }
    }

    #[test]
    fn the_variant_of_old_user_messages_is_found_at_the_top() -> Result<(), ShapeError> {
        let read = parse_document(sample(), Mode::Strict)?;
        let crate::model::MessageBody::User(user) = &read.messages[0].message.body else {
            return Err(ShapeError::new("test", "no user message"));
        };
        assert_eq!(super::super::user_variant(user), Some("high"));
        Ok(())
    }
}
