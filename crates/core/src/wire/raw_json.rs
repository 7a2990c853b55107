//! The same shapes as text: a body that is JSON already is passed on as it is.

use std::fmt::Write as _;

use super::parsing::ShapeError;
use super::usage::tokens_info;
use crate::id::{MessageId, PartId, SessionId};
use crate::model::SessionUsage;

/// Appends a session as [`super::session_info`] shows it; `stored` is one in JSON that has no usage of
/// elsewhere and no field that is only ours.
///
/// # Errors
///
/// It is no object: then nothing is appended.
pub fn write_session(
    out: &mut String,
    stored: &str,
    usage: SessionUsage,
) -> Result<(), ShapeError> {
    let separator = open_object(out, "session", stored)?;
    let (cost, tokens) = (usage.cost_number(), tokens_info(usage));
    // Writing into a text cannot fail.
    let _ = write!(out, "{separator}\"cost\":{cost},\"tokens\":{tokens}}}");
    Ok(())
}

/// Appends a message as [`super::message_info`] shows it; `body` is its body in JSON.
///
/// # Errors
///
/// As [`write_session`].
pub fn write_message(
    out: &mut String,
    body: &str,
    id: &MessageId,
    session: &SessionId,
) -> Result<(), ShapeError> {
    write_object(out, "message", body, &[("id", id.as_str()), ("sessionID", session.as_str())])
}

/// Appends a part as [`super::part_info`] shows it; `body` is its body in JSON.
///
/// # Errors
///
/// As [`write_session`].
pub fn write_part(
    out: &mut String,
    body: &str,
    id: &PartId,
    (session, message): (&SessionId, &MessageId),
) -> Result<(), ShapeError> {
    let message = ("messageID", message.as_str());
    write_object(
        out,
        "part",
        body,
        &[("id", id.as_str()), ("sessionID", session.as_str()), message],
    )
}

/// Appends an object up to its last brace; what goes before the next field.
fn open_object(
    out: &mut String,
    what: &'static str,
    json: &str,
) -> Result<&'static str, ShapeError> {
    let inside = json.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inside = inside.ok_or_else(|| ShapeError::new(what, "not an object"))?.trim();
    out.push('{');
    out.push_str(inside);
    Ok(if inside.is_empty() { "" } else { "," })
}

/// Ids hold nothing that JSON would have to escape.
fn write_object(
    out: &mut String,
    what: &'static str,
    body: &str,
    fields: &[(&str, &str)],
) -> Result<(), ShapeError> {
    let mut separator = open_object(out, what, body)?;
    for (name, text) in fields {
        [separator, "\"", name, "\":\"", text, "\""].iter().for_each(|part| out.push_str(part));
        separator = ",";
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ids() -> (SessionId, MessageId, PartId) {
        let parsed = (
            "ses_0000000000010000000000000A".parse(),
            "msg_0000000000010000000000000A".parse(),
            "prt_0000000000010000000000000A".parse(),
        );
        (parsed.0.expect("an id"), parsed.1.expect("an id"), parsed.2.expect("an id"))
    }

    #[test]
    fn ids_are_appended_after_body_fields() {
        let (session, message, part) = ids();
        for body in [r#"{"type":"text","text":"}\"}"}"#, "{}", " { } "] {
            let mut out = String::new();
            write_part(&mut out, body, &part, (&session, &message)).expect("an object");
            let mut wanted: Value = serde_json::from_str(body).expect("a body");
            wanted["id"] = json!(part);
            wanted["sessionID"] = json!(session);
            wanted["messageID"] = json!(message);
            assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON"), wanted);
            assert_eq!(out.matches("sessionID").count(), 1);
        }
    }

    #[test]
    fn non_object_body_is_rejected_and_writes_nothing() {
        let (session, message, part) = ids();
        for body in ["", "[]", "\"}\"", "7", "{"] {
            let mut out = String::new();
            let refused = write_part(&mut out, body, &part, (&session, &message)).is_err();
            assert!(refused && out.is_empty(), "{body:?}: {out}");
            assert!(write_session(&mut out, body, SessionUsage::default()).is_err(), "{body:?}");
        }
    }
}
