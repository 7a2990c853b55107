//! Messages of a conversation, built from their JSON.

use serde_json::{Value, json};
use turnstone_core::context::ContextMessage;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Message, MessageBody, Part};

/// The session of all these messages.
const SESSION: &str = "ses_one";

/// A message with its parts; their ids are derived from `id`.
pub(crate) fn message(id: &str, body: Value, parts: &[Value]) -> ContextMessage {
    let id: MessageId = format!("msg_{id}").parse().expect("an id");
    let session: SessionId = SESSION.parse().expect("an id");
    let part = |(index, body): (usize, &Value)| Part {
        id: format!("prt_{}-{index}", &id.as_str()[4..]).parse().expect("an id"),
        session: session.clone(),
        message: id.clone(),
        body: serde_json::from_value(body.clone()).expect("a part"),
    };
    let parts = parts.iter().enumerate().map(part).collect();
    let body: MessageBody = serde_json::from_value(body).expect("a message");
    (Message { id, session, body }, parts)
}

/// A prompt with its parts.
pub(crate) fn user_with(id: &str, parts: &[Value]) -> ContextMessage {
    let model = json!({ "providerID": "p", "modelID": "m" });
    let body =
        json!({ "role": "user", "time": { "created": 1 }, "agent": "build", "model": model });
    message(id, body, parts)
}
