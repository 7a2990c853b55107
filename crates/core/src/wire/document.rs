//! The export document: one session with all its messages and parts.

use serde_json::{Value, json};

use super::message::{message_export, part_info};
use super::session::session_export;
use crate::model::{Message, Part, Session, SessionUsage};

/// One session with everything that was said in it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportDocument {
    /// The session.
    pub session: Session,
    /// Its messages, in order.
    pub messages: Vec<DocumentMessage>,
}

/// One message with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentMessage {
    /// The message.
    pub message: Message,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// Returns the document in OpenCode's export shape; `usage` is the sum over the step-finish parts.
#[must_use]
pub fn export_document(document: &ExportDocument, usage: SessionUsage) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::{parse_message, parse_part};
    use crate::wire::parsing::{self, ParseMode, ShapeError};
    use crate::wire::session::parse_session;
    use crate::wire::usage::part_usage;

    /// Reads an export document; the session's usage base is counted from its step-finish parts.
    fn parse_document(value: Value, mode: ParseMode) -> Result<ExportDocument, ShapeError> {
        const WHAT: &str = "session export";
        let mut map = parsing::expect_object(WHAT, value)?;
        let info = map.remove("info").ok_or_else(|| ShapeError::new(WHAT, "no info"))?;
        let list: Vec<Value> = parsing::take_field(WHAT, &mut map, "messages")?;
        let mut session = parse_session(info)?;
        let messages = list
            .into_iter()
            .map(|value| parse_document_message(value, mode, &session))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(base) = &mut session.usage_base {
            base.counted = sum_usage(&messages);
        }
        Ok(ExportDocument { session, messages })
    }

    fn parse_document_message(
        value: Value,
        mode: ParseMode,
        session: &Session,
    ) -> Result<DocumentMessage, ShapeError> {
        const WHAT: &str = "message with parts";
        let mut map = parsing::expect_object(WHAT, value)?;
        let info = map.remove("info").ok_or_else(|| ShapeError::new(WHAT, "no info"))?;
        let list: Vec<Value> = parsing::take_field(WHAT, &mut map, "parts")?;
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
        Ok(DocumentMessage { message, parts })
    }

    fn sum_usage(messages: &[DocumentMessage]) -> SessionUsage {
        let parts = messages.iter().flat_map(|entry| &entry.parts);
        parts.fold(SessionUsage::default(), |sum, part| sum.plus(part_usage(&part.body)))
    }

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
    fn document_round_trips() -> Result<(), ShapeError> {
        let read = parse_document(sample(), ParseMode::Strict)?;
        let usage = sum_usage(&read.messages);
        assert_eq!(export_document(&read, usage), sample());
        Ok(())
    }

    #[test]
    fn imported_usage_is_exact_until_parts_change() -> Result<(), ShapeError> {
        let read = parse_document(sample(), ParseMode::Strict)?;
        let usage = sum_usage(&read.messages);
        let shown = export_document(&read, usage.plus(usage));
        assert_eq!(shown["info"]["cost"], json!(0.50714));
        assert_eq!(shown["info"]["tokens"]["input"], json!(20));
        Ok(())
    }

    #[test]
    fn unknown_part_is_rejected_strict_and_kept_lenient() -> Result<(), ShapeError> {
        let mut value = sample();
        value["messages"][0]["parts"][0]["type"] = json!("hologram");
        assert!(parse_document(value.clone(), ParseMode::Strict).is_err());
        let read = parse_document(value.clone(), ParseMode::Lenient)?;
        assert_eq!(export_document(&read, sum_usage(&read.messages)), value);
        Ok(())
    }

    #[test]
    fn foreign_session_or_message_ids_are_rejected() {
        for pointer in ["/messages/0/info/sessionID", "/messages/0/parts/0/sessionID"] {
            let mut value = sample();
            if let Some(id) = value.pointer_mut(pointer) {
                *id = json!("ses_other");
            }
            assert!(parse_document(value, ParseMode::Lenient).is_err(), "{pointer}");
        }
    }

    #[test]
    fn old_user_variant_is_read_from_top_level() -> Result<(), ShapeError> {
        let read = parse_document(sample(), ParseMode::Strict)?;
        let crate::model::MessageBody::User(user) = &read.messages[0].message.body else {
            return Err(ShapeError::new("test", "no user message"));
        };
        assert_eq!(super::super::user_variant(user), Some("high"));
        Ok(())
    }
}
