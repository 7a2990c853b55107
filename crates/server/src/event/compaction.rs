//! A compaction in the second interface: asked for with a part, over with a summary.

use serde_json::json;
use turnstone_core::context::transcript;
use turnstone_core::id::MessageId;
use turnstone_core::model::{Assistant, Compaction, Message, Part, PartBody};
use turnstone_engine::Engine;
use turnstone_store::{Context, Reader, StoreError, WithParts};

use super::episode::{Said, said};

/// That a compaction was asked for; it is named by the message that asks.
pub(super) fn asked(part: &Part) -> Option<Said> {
    let reason = reason(compaction(part)?);
    said("compaction.started", json!({ "messageID": part.message, "reason": reason }))
}

/// That a compaction is over: its summary, and what is kept word by word.
pub(super) fn done(
    engine: &Engine,
    ctx: &Context,
    summary: &Message,
    answer: &Assistant,
) -> Result<Option<Said>, StoreError> {
    engine.store().read(ctx, |r| {
        let request = r.get_message(&summary.session, &answer.parent)?;
        let Some(asked) = request.parts.iter().find_map(compaction) else { return Ok(None) };
        let text = words(&r.get_message(&summary.session, &summary.id)?);
        let recent = match &asked.tail_start {
            Some(tail) => recent(r, &request.message, tail)?,
            None => String::new(),
        };
        let data = json!({ "messageID": request.message.id, "reason": reason(asked), "text": text,
            "recent": recent });
        Ok(said("compaction.ended", data))
    })
}

fn compaction(part: &Part) -> Option<&Compaction> {
    let PartBody::Compaction(compaction) = &part.body else { return None };
    Some(compaction)
}

const fn reason(compaction: &Compaction) -> &'static str {
    if compaction.auto { "auto" } else { "manual" }
}

fn words(summary: &WithParts) -> String {
    let texts = summary.parts.iter().filter_map(|part| {
        let PartBody::Text(text) = &part.body else { return None };
        Some(text.text.as_str())
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What was said from `tail` on, up to the request.
fn recent(reader: &Reader<'_>, request: &Message, tail: &MessageId) -> Result<String, StoreError> {
    let all = reader.list_messages(&request.session, None, usize::MAX)?.items;
    let kept = all.into_iter().skip_while(|entry| entry.message.id != *tail);
    let kept = kept.take_while(|entry| entry.message.id != request.id);
    let kept: Vec<_> = kept.map(|entry| (entry.message, entry.parts)).collect();
    Ok(transcript(&kept))
}
