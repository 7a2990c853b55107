//! A compaction in the second interface: asked for with a part, over with a summary.

use serde_json::json;
use turnstone_core::context::render_transcript;
use turnstone_core::id::MessageId;
use turnstone_core::model::{AssistantMessage, CompactionPart, Message, Part, PartBody};
use turnstone_engine::Engine;
use turnstone_store::{Context, MessageWithParts, ReadTx, StoreError};

use super::v2_event::{V2Payload, v2_payload};

/// That a compaction was asked for; it is named by the message that asks.
pub(super) fn compaction_started(part: &Part) -> Option<V2Payload> {
    let reason = compaction_reason(compaction_part(part)?);
    v2_payload("compaction.started", json!({ "messageID": part.message, "reason": reason }))
}

/// That a compaction is over: its summary, and what is kept word by word.
pub(super) fn compaction_ended(
    engine: &Engine,
    ctx: &Context,
    summary: &Message,
    answer: &AssistantMessage,
) -> Result<Option<V2Payload>, StoreError> {
    engine.store().read(ctx, |r| {
        let request = r.messages().get(&summary.session, &answer.parent)?;
        let Some(asked) = request.parts.iter().find_map(compaction_part) else { return Ok(None) };
        let text = message_text(&r.messages().get(&summary.session, &summary.id)?);
        let recent = match &asked.tail_start {
            Some(tail) => retained_transcript(r, &request.message, tail)?,
            None => String::new(),
        };
        let data = json!({ "messageID": request.message.id, "reason": compaction_reason(asked), "text": text,
            "recent": recent });
        Ok(v2_payload("compaction.ended", data))
    })
}

fn compaction_part(part: &Part) -> Option<&CompactionPart> {
    let PartBody::Compaction(compaction) = &part.body else { return None };
    Some(compaction)
}

const fn compaction_reason(compaction: &CompactionPart) -> &'static str {
    if compaction.auto { "auto" } else { "manual" }
}

fn message_text(summary: &MessageWithParts) -> String {
    let texts = summary.parts.iter().filter_map(|part| {
        let PartBody::Text(text) = &part.body else { return None };
        Some(text.text.as_str())
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What was said from `tail` on, up to the request.
fn retained_transcript(
    reader: &ReadTx<'_>,
    request: &Message,
    tail: &MessageId,
) -> Result<String, StoreError> {
    let all = reader.messages().list(&request.session, None, usize::MAX)?.items;
    let kept = all.into_iter().skip_while(|entry| entry.message.id != *tail);
    let kept = kept.take_while(|entry| entry.message.id != request.id);
    let kept: Vec<_> = kept.map(|entry| (entry.message, entry.parts)).collect();
    Ok(render_transcript(&kept))
}
