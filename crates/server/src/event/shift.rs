//! What changed of a session beside its words, in the second interface: agent, model, where it stands.

use serde_json::json;
use turnstone_engine::Engine;
use turnstone_store::{Context, FeedEvent, HeadShift, SessionShift, StoreError};

use super::episode::{Said, said};
use super::ident::switch_id;

/// What an event of a session says of it.
///
/// There a switch is a message of its own. Here it is none: its name is made of the place of the event, so
/// it is the same whenever it is read. Where a session stands is told without the diff against the
/// disk, which is another one whenever it is read.
pub(super) fn told(
    engine: &Engine,
    ctx: &Context,
    event: &FeedEvent,
) -> Result<Vec<Said>, StoreError> {
    let SessionShift { agent, model, head } =
        engine.store().read(ctx, |r| r.session_shift(event))?;
    let name = |nth| switch_id(event.cursor, event.time, nth);
    let agent = agent
        .and_then(|agent| said("agent.switched", json!({ "messageID": name(0), "agent": agent })));
    let model = model
        .and_then(|model| said("model.switched", json!({ "messageID": name(1), "model": model })));
    let head = head.and_then(|head| match head {
        HeadShift::To(head) => {
            let mut revert = json!({ "messageID": head.message });
            if let Some(part) = head.part {
                revert["partID"] = json!(part);
            }
            said("revert.staged", json!({ "revert": revert }))
        }
        HeadShift::Tip => said("revert.cleared", json!({})),
        HeadShift::Branched(message) => said("revert.committed", json!({ "messageID": message })),
    });
    Ok([agent, model, head].into_iter().flatten().collect())
}
