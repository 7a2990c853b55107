//! The numbered stream of a session in the words of OpenCode's second interface (`session.next.*`).
//!
//! There each step of a turn has a type of its own; here they are read off the images of messages and
//! parts. Each event has the number of the event it was read off, so numbers are left out where an image
//! has no word there.

use serde_json::{Map, Value, json};
use turnstone_core::model::{Message, MessageBody};
use turnstone_core::wire;
use turnstone_engine::Engine;
use turnstone_store::{Context, FeedBody, FeedEvent};

use super::ident::event_id;

/// One event of the second interface.
pub(super) struct Next {
    /// Its number.
    pub(super) seq: i64,
    /// All of it, as JSON.
    pub(super) json: String,
}

/// What an event is in the second interface; nothing if it has no word for it.
pub(super) fn next(engine: &Engine, ctx: &Context, event: &FeedEvent) -> Option<Next> {
    let session = event.session.as_ref()?;
    let seq = session.sync_seq?;
    let (kind, mut data) = match &event.body {
        FeedBody::Message(message) => of_message(engine, ctx, message, event.is_first)?,
        FeedBody::Part(part) => {
            let found = engine.store().read(ctx, |r| r.get_message(&session.id, &part.message));
            // A message that is gone has no more to say.
            let message = found.ok()?.message;
            let (kind, mut data) = of_part(&message, &wire::part_info(part), event.is_first)?;
            data.insert("assistantMessageID".to_owned(), json!(part.message));
            (kind, data)
        }
        _ => return None,
    };
    data.insert("timestamp".to_owned(), json!(event.time.0));
    data.insert("sessionID".to_owned(), json!(session.id));
    let version = if kind.starts_with("step.") && kind != "step.started" { 2 } else { 1 };
    let json = json!({
        "id": event_id(event.cursor, event.time, 0),
        "type": format!("session.next.{kind}"),
        "durable": { "aggregateID": session.id, "seq": seq, "version": version },
        "data": data,
    });
    Some(Next { seq, json: json.to_string() })
}

type Said = (&'static str, Map<String, Value>);

fn said(kind: &'static str, data: Value) -> Option<Said> {
    match data {
        Value::Object(map) => Some((kind, map)),
        _ => None,
    }
}

fn of_message(engine: &Engine, ctx: &Context, message: &Message, is_first: bool) -> Option<Said> {
    match &message.body {
        MessageBody::User(_) if is_first => {
            let found = engine.store().read(ctx, |r| r.get_message(&message.session, &message.id));
            let parts = found.map(|found| found.parts).unwrap_or_default();
            let texts = parts.iter().map(wire::part_info).filter(|part| {
                part["type"] == "text" && part["synthetic"] != true && part["ignored"] != true
            });
            let texts: Vec<String> =
                texts.filter_map(|part| Some(part["text"].as_str()?.to_owned())).collect();
            let prompt = json!({ "text": texts.join("\n") });
            let data = json!({ "messageID": message.id, "prompt": prompt, "delivery": "steer" });
            said("prompted", data)
        }
        MessageBody::Assistant(answer) => {
            let error = answer.error.as_ref()?;
            answer.time.completed.as_ref()?;
            let words = error.data["message"].as_str().unwrap_or("the step failed");
            let error = json!({ "type": "unknown", "message": words });
            said("step.failed", json!({ "assistantMessageID": message.id, "error": error }))
        }
        MessageBody::User(_) => None,
    }
}

fn of_part(message: &Message, part: &Value, is_first: bool) -> Option<Said> {
    let MessageBody::Assistant(_) = &message.body else { return None };
    let info = wire::message_info(message);
    match part["type"].as_str()? {
        "step-start" if is_first => {
            let model = json!({ "id": info["modelID"], "providerID": info["providerID"] });
            let mut data = json!({ "agent": info["agent"], "model": model });
            keep(&mut data, part, "snapshot");
            said("step.started", data)
        }
        "step-finish" => {
            let mut data =
                json!({ "finish": part["reason"], "cost": part["cost"], "tokens": part["tokens"] });
            if let Some(tokens) = data["tokens"].as_object_mut() {
                tokens.remove("total");
            }
            keep(&mut data, part, "snapshot");
            said("step.ended", data)
        }
        "text" => of_text(("text.started", "text.ended", "textID"), part, is_first),
        "reasoning" => {
            of_text(("reasoning.started", "reasoning.ended", "reasoningID"), part, is_first)
        }
        "tool" => of_tool(part),
        _ => None,
    }
}

fn of_text(
    (started, ended, name): (&'static str, &'static str, &str),
    part: &Value,
    is_first: bool,
) -> Option<Said> {
    if part["time"]["end"].is_null() {
        return is_first.then(|| said(started, json!({ name: part["id"] }))).flatten();
    }
    said(ended, json!({ name: part["id"], "text": part["text"] }))
}

fn of_tool(part: &Value) -> Option<Said> {
    let state = &part["state"];
    let (call, provider) = (&part["callID"], json!({ "executed": false }));
    match state["status"].as_str()? {
        "pending" => said("tool.input.started", json!({ "callID": call, "name": part["tool"] })),
        "running" => {
            let data = json!({ "callID": call, "tool": part["tool"], "input": state["input"], "provider": provider });
            said("tool.called", data)
        }
        "completed" => {
            let content = json!([{ "type": "text", "text": state["output"] }]);
            let structured = state["metadata"].as_object().cloned().unwrap_or_default();
            let data = json!({ "callID": call, "structured": structured, "content": content, "provider": provider });
            said("tool.success", data)
        }
        "error" => {
            let error = json!({ "type": "unknown", "message": state["error"] });
            said("tool.failed", json!({ "callID": call, "error": error, "provider": provider }))
        }
        _ => None,
    }
}

fn keep(data: &mut Value, part: &Value, key: &str) {
    if !part[key].is_null() {
        data[key] = part[key].clone();
    }
}
