//! Changes of a session other than its messages, in the second interface: agent, model, position.

use serde_json::json;
use turnstone_engine::Engine;
use turnstone_store::{Context, FeedEvent, HeadDelta, SessionDelta, StoreError};

use super::event_id::switch_message_id;
use super::v2_event::{V2Payload, v2_payload};

/// What an event changes of its session.
///
/// There a switch is a message of its own. Here it is none: its name is made of the place of the event, so
/// it is the same whenever it is read. The position of a session is sent without the diff against the
/// disk, which is another one whenever it is read.
pub(super) fn session_delta_payloads(
    engine: &Engine,
    ctx: &Context,
    event: &FeedEvent,
) -> Result<Vec<V2Payload>, StoreError> {
    let SessionDelta { agent, model, head } =
        engine.store().read(ctx, |r| r.history().session_delta(event))?;
    let name = |nth| switch_message_id(event.cursor, event.time, nth);
    let agent = agent.and_then(|agent| {
        v2_payload("agent.switched", json!({ "messageID": name(0), "agent": agent }))
    });
    let model = model.and_then(|model| {
        v2_payload("model.switched", json!({ "messageID": name(1), "model": model }))
    });
    let head = head.and_then(|head| match head {
        HeadDelta::MovedTo(head) => {
            let mut revert = json!({ "messageID": head.message });
            if let Some(part) = head.part {
                revert["partID"] = json!(part);
            }
            v2_payload("revert.staged", json!({ "revert": revert }))
        }
        HeadDelta::Tip => v2_payload("revert.cleared", json!({})),
        HeadDelta::Branched(message) => {
            v2_payload("revert.committed", json!({ "messageID": message }))
        }
    });
    Ok([agent, model, head].into_iter().flatten().collect())
}
