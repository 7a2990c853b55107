//! The same shapes as text: a body that is JSON already is passed on as it is.

use std::fmt::Write as _;

use super::figures::tokens_of;
use crate::id::{MessageId, PartId, SessionId};
use crate::model::Usage;

/// Appends a session as [`super::session_info`] shows it; `stored` is one in JSON that has no usage of
/// elsewhere and no field that is only ours.
pub fn write_session(out: &mut String, stored: &str, usage: Usage) {
    out.push_str(stored.trim_end().strip_suffix('}').unwrap_or("{"));
    let (cost, tokens) = (usage.cost_number(), tokens_of(usage));
    // Writing into a text cannot fail.
    let _ = write!(out, ",\"cost\":{cost},\"tokens\":{tokens}}}");
}

/// Appends a message as [`super::message_info`] shows it; `body` is its body in JSON.
pub fn write_message(out: &mut String, body: &str, id: &MessageId, session: &SessionId) {
    write(out, body, &[("id", id.as_str()), ("sessionID", session.as_str())]);
}

/// Appends a part as [`super::part_info`] shows it; `body` is its body in JSON.
pub fn write_part(
    out: &mut String,
    body: &str,
    id: &PartId,
    (session, message): (&SessionId, &MessageId),
) {
    let message = ("messageID", message.as_str());
    write(out, body, &[("id", id.as_str()), ("sessionID", session.as_str()), message]);
}

/// Ids hold nothing that JSON would have to escape.
fn write(out: &mut String, body: &str, fields: &[(&str, &str)]) {
    let inside = body.trim().strip_suffix('}').unwrap_or("{").trim_end();
    out.push_str(inside);
    let mut is_first = inside.len() == 1;
    for (name, text) in fields {
        let parts = [if is_first { "\"" } else { ",\"" }, name, "\":\"", text, "\""];
        parts.iter().for_each(|part| out.push_str(part));
        is_first = false;
    }
    out.push('}');
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
    fn a_body_gets_its_ids_behind_its_own_fields() {
        let (session, message, part) = ids();
        for body in [r#"{"type":"text","text":"}\"}"}"#, "{}", " { } "] {
            let mut out = String::new();
            write_part(&mut out, body, &part, (&session, &message));
            let mut wanted: Value = serde_json::from_str(body).expect("a body");
            wanted["id"] = json!(part);
            wanted["sessionID"] = json!(session);
            wanted["messageID"] = json!(message);
            assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON"), wanted);
            assert_eq!(out.matches("sessionID").count(), 1);
        }
    }
}
