//! The numbered stream of a session in the words of OpenCode's second interface (`session.next.*`).
//!
//! There each step of a turn has a type of its own; here they are read off the images of messages and
//! parts. Each event has the number of the event it was read off, so numbers are left out where an image
//! has no word there.

use serde_json::{Map, Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::{AssistantMessage, Message, MessageBody, Part, PartBody};
use turnstone_core::time::LogCursor;
use turnstone_core::wire;
use turnstone_engine::Engine;
use turnstone_store::{Context, FeedBody, FeedEvent, StoreError};

use super::event_id::{StreamPosition, event_id};
use super::{v2_compaction, v2_session_delta};
use crate::wire_json;

/// One event of the second interface.
pub(super) struct V2Event {
    /// Where it is: its number, and which of several of that number it is if it is not the last.
    pub(super) place: StreamPosition,
    /// All of it, as JSON.
    pub(super) json: String,
}

impl V2Event {
    /// True if a client at `place` has seen it.
    pub(super) fn is_before(&self, place: StreamPosition) -> bool {
        place.includes(self.place.cursor, self.place.frame.unwrap_or(u32::MAX))
    }
}

/// What an event is in the second interface; nothing if it has no word for it, several if it changed
/// several things at once. Waits for the disk.
pub(super) fn v2_events(
    engine: &Engine,
    ctx: &Context,
    event: &FeedEvent,
) -> Result<Vec<V2Event>, StoreError> {
    let numbered = event.session.as_ref().and_then(|it| Some((&it.id, it.sync_seq?)));
    let Some((session, seq)) = numbered else { return Ok(Vec::new()) };
    let payloads = match v2_payloads(engine, ctx, session, event) {
        // A message that is gone has no more to say.
        Err(StoreError::NoMessage { .. }) => return Ok(Vec::new()),
        payloads => payloads?,
    };
    let last = payloads.len().saturating_sub(1);
    let show = |(nth, (kind, mut data)): (usize, V2Payload)| {
        data.insert("timestamp".to_owned(), json!(event.time.0));
        data.insert("sessionID".to_owned(), json!(session));
        let version = if kind.starts_with("step.") && kind != "step.started" { 2 } else { 1 };
        let json = json!({
            "id": event_id(event.cursor, event.time, nth),
            "type": format!("session.next.{kind}"),
            "durable": { "aggregateID": session, "seq": seq, "version": version },
            "data": data,
        });
        let place =
            StreamPosition { cursor: LogCursor(seq), frame: (nth < last).then_some(nth as u32) };
        V2Event { place, json: json.to_string() }
    };
    Ok(payloads.into_iter().enumerate().map(show).collect())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest has no words there")]
fn v2_payloads(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    event: &FeedEvent,
) -> Result<Vec<V2Payload>, StoreError> {
    let said = match &event.body {
        FeedBody::Session(_) => {
            return v2_session_delta::session_delta_payloads(engine, ctx, event);
        }
        FeedBody::Message(message) => message_payload(engine, ctx, message, event.is_first)?,
        FeedBody::Part(part) if matches!(part.body, PartBody::Compaction(_)) => {
            v2_compaction::compaction_started(part).filter(|_| event.is_first)
        }
        FeedBody::Part(part) => {
            let found = engine.store().read(ctx, |r| r.messages().get(session, &part.message))?;
            let said = part_payload(&found.message, &wire_json::part_json(part), event.is_first);
            said.map(|(kind, mut data)| {
                data.insert("assistantMessageID".to_owned(), json!(part.message));
                (kind, data)
            })
        }
        _ => None,
    };
    Ok(said.into_iter().collect())
}

/// A type and what there is to say.
pub(super) type V2Payload = (&'static str, Map<String, Value>);

pub(super) fn v2_payload(kind: &'static str, data: Value) -> Option<V2Payload> {
    let Value::Object(map) = data else { return None };
    Some((kind, map))
}

fn message_payload(
    engine: &Engine,
    ctx: &Context,
    message: &Message,
    is_first: bool,
) -> Result<Option<V2Payload>, StoreError> {
    match &message.body {
        MessageBody::User(_) if is_first => {
            let found =
                engine.store().read(ctx, |r| r.messages().get(&message.session, &message.id))?;
            Ok(prompt_payload(message, &found.parts))
        }
        MessageBody::Assistant(answer) if answer.error.is_some() => {
            Ok(failure_payload(message, answer))
        }
        MessageBody::Assistant(answer) if is_summary(answer) && answer.time.completed.is_some() => {
            v2_compaction::compaction_ended(engine, ctx, message, answer)
        }
        MessageBody::User(_) | MessageBody::Assistant(_) => Ok(None),
    }
}

/// A prompt that asks for a compaction is sent as a compaction.
fn prompt_payload(message: &Message, parts: &[Part]) -> Option<V2Payload> {
    if parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_))) {
        return None;
    }
    let texts = parts.iter().map(wire::part_info).filter(|part| {
        part["type"] == "text" && part["synthetic"] != true && part["ignored"] != true
    });
    let texts: Vec<String> =
        texts.filter_map(|part| Some(part["text"].as_str()?.to_owned())).collect();
    let prompt = json!({ "text": texts.join("\n") });
    v2_payload(
        "prompted",
        json!({ "messageID": message.id, "prompt": prompt, "delivery": "steer" }),
    )
}

fn failure_payload(message: &Message, answer: &AssistantMessage) -> Option<V2Payload> {
    let error = answer.error.as_ref()?;
    answer.time.completed.as_ref()?;
    let words = error.data["message"].as_str().unwrap_or("the step failed");
    let error = json!({ "type": "unknown", "message": words });
    v2_payload("step.failed", json!({ "assistantMessageID": message.id, "error": error }))
}

fn is_summary(answer: &AssistantMessage) -> bool {
    answer.summary == Some(true)
}

fn part_payload(message: &Message, part: &Value, is_first: bool) -> Option<V2Payload> {
    let MessageBody::Assistant(answer) = &message.body else { return None };
    // The text of a summary is sent with the compaction that it ends.
    if is_summary(answer) {
        return None;
    }
    let info = wire::message_info(message);
    match part["type"].as_str()? {
        "step-start" if is_first => {
            let mut model = json!({ "id": info["modelID"], "providerID": info["providerID"] });
            copy_field(&mut model, &info, "variant");
            let mut data = json!({ "agent": info["agent"], "model": model });
            copy_field(&mut data, part, "snapshot");
            v2_payload("step.started", data)
        }
        "step-finish" => {
            let mut data =
                json!({ "finish": part["reason"], "cost": part["cost"], "tokens": part["tokens"] });
            if let Some(tokens) = data["tokens"].as_object_mut() {
                tokens.remove("total");
            }
            copy_field(&mut data, part, "snapshot");
            v2_payload("step.ended", data)
        }
        "text" => text_payload(("text.started", "text.ended", "textID"), part, is_first),
        "reasoning" => {
            text_payload(("reasoning.started", "reasoning.ended", "reasoningID"), part, is_first)
        }
        "tool" => tool_payload(part),
        _ => None,
    }
}

fn text_payload(
    (started, ended, name): (&'static str, &'static str, &str),
    part: &Value,
    is_first: bool,
) -> Option<V2Payload> {
    if part["time"]["end"].is_null() {
        return is_first.then(|| v2_payload(started, json!({ name: part["id"] }))).flatten();
    }
    v2_payload(ended, json!({ name: part["id"], "text": part["text"] }))
}

fn tool_payload(part: &Value) -> Option<V2Payload> {
    let state = &part["state"];
    let (call, provider) = (&part["callID"], json!({ "executed": false }));
    match state["status"].as_str()? {
        "pending" => {
            v2_payload("tool.input.started", json!({ "callID": call, "name": part["tool"] }))
        }
        "running" => {
            let data = json!({ "callID": call, "tool": part["tool"], "input": state["input"], "provider": provider });
            v2_payload("tool.called", data)
        }
        "completed" => {
            let content = json!([{ "type": "text", "text": state["output"] }]);
            let structured = state["metadata"].as_object().cloned().unwrap_or_default();
            let data = json!({ "callID": call, "structured": structured, "content": content, "provider": provider });
            v2_payload("tool.success", data)
        }
        "error" => {
            let error = json!({ "type": "unknown", "message": state["error"] });
            v2_payload(
                "tool.failed",
                json!({ "callID": call, "error": error, "provider": provider }),
            )
        }
        _ => None,
    }
}

fn copy_field(data: &mut Value, part: &Value, key: &str) {
    if !part[key].is_null() {
        data[key] = part[key].clone();
    }
}
