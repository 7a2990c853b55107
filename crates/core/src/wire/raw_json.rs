//! The same shapes as text: a body that is JSON already is passed on as it is.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::parsing::ShapeError;
use super::session::{HIDDEN_FIELDS, USAGE_FIELD};
use super::usage::displayed_usage;
use crate::id::{MessageId, PartId, SessionId};
use crate::model::{ImportedUsage, SessionUsage};

/// Fields that are computed from the usage, whatever is stored.
const COMPUTED_USAGE_FIELDS: [&str; 2] = ["cost", "tokens"];

/// Appends a session as [`super::session_info`] shows it; `stored` is one in JSON that is complete. Fields that
/// are only ours are left out, without building the model.
///
/// # Errors
///
/// It is no object: then nothing is appended.
pub fn write_session(
    out: &mut String,
    stored: &str,
    usage: SessionUsage,
) -> Result<(), ShapeError> {
    // In a text the quotes are escaped; a field of that name further inside only costs time.
    let is_private = HIDDEN_FIELDS
        .iter()
        .chain(&COMPUTED_USAGE_FIELDS)
        .any(|name| stored.match_indices(name).any(|(at, _)| stored[..at].ends_with('"')));
    let (separator, base) = match is_private {
        true => open_public_fields(out, stored)?,
        false => (open_object(out, "session", stored)?, None),
    };
    let (cost, tokens) = displayed_usage(base.as_ref(), usage);
    // Writing into a text cannot fail.
    let _ = write!(out, "{separator}\"cost\":{cost},\"tokens\":{tokens}}}");
    Ok(())
}

/// Appends the fields of a session that clients are shown, up to the last brace; what goes before the next field, and
/// the usage that an import brought.
fn open_public_fields(
    out: &mut String,
    stored: &str,
) -> Result<(&'static str, Option<ImportedUsage>), ShapeError> {
    let invalid = |error: serde_json::Error| ShapeError::new("session", error);
    let fields: RawFields<'_> = serde_json::from_str(stored).map_err(invalid)?;
    let usage = fields.0.iter().find(|(name, _)| name == USAGE_FIELD);
    let usage = usage.map(|(_, text)| serde_json::from_str::<Option<_>>(text.get()));
    let usage = usage.transpose().map_err(invalid)?.flatten();
    let is_public =
        |name: &str| !HIDDEN_FIELDS.contains(&name) && !COMPUTED_USAGE_FIELDS.contains(&name);
    out.push('{');
    let begin = out.len();
    for (name, text) in fields.0.iter().filter(|(name, _)| is_public(name)) {
        if out.len() > begin {
            out.push(',');
        }
        out.push_str(&serde_json::Value::from(&**name).to_string());
        out.push(':');
        out.push_str(text.get());
    }
    Ok((if out.len() > begin { "," } else { "" }, usage))
}

/// The fields of an object, each value as the text it is.
struct RawFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawFields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(RawFieldsVisitor)
    }
}

struct RawFieldsVisitor;

impl<'de> Visitor<'de> for RawFieldsVisitor {
    type Value = RawFields<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(16);
        while let Some((FieldName(name), text)) = map.next_entry()? {
            fields.push((name, text));
        }
        Ok(RawFields(fields))
    }
}

/// The name of a field, borrowed unless it has escapes.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

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

    use super::super::session_info;
    use super::*;
    use crate::model::Session;

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
    fn private_fields_of_a_session_are_left_out() {
        let stored = json!({ "id": "ses_a", "slug": "s", "projectID": "p", "directory": "/\u{e9}",
            "title": "\"origin\"", "version": "1", "time": { "created": 1.50, "updated": 2 },
            "importedPermission": [{ "permission": "*", "pattern": "*", "action": "allow" }],
            "origin": { "sessionID": "ses_b", "seq": 1 }, "n\"ote": "usage_base", "usage_base": {
                "cost": 0.25, "tokens": { "input": 7, "output": 2, "reasoning": 0,
                    "cache": { "read": 1, "write": 0 } }, "counted": SessionUsage::default() } });
        let mut session: Session = serde_json::from_value(stored.clone()).expect("a session");
        for usage in [SessionUsage::default(), SessionUsage { input: 5, ..SessionUsage::default() }]
        {
            let mut out = String::new();
            write_session(&mut out, &stored.to_string(), usage).expect("an object");
            let shown: Value = serde_json::from_str(&out).expect("JSON");
            assert_eq!(shown, session_info(&session, usage));
        }
        session.usage_base = None;
        let mut out = String::new();
        let plain = serde_json::to_string(&session).expect("JSON");
        write_session(&mut out, &plain, SessionUsage::default()).expect("an object");
        let shown: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(shown, session_info(&session, SessionUsage::default()));
        assert!(
            write_session(&mut String::new(), "[\"origin\"]", SessionUsage::default()).is_err()
        );
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
