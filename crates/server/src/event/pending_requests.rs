//! What waits for an answer, sent to every stream that does not resume.
//!
//! OpenCode's terminal never lists pending requests: it shows a dialog only for a request that its stream
//! announces. A client that connects later, or again after a restart, would never show it.

use std::collections::HashSet;

use turnstone_core::id::IdClock;
use turnstone_core::time::LogCursor;

use super::event_id;
use super::hub::HubShared;
use super::stream_event::{EventScope, StreamEvent, WireEvent};
use super::translation;

/// The pending requests of all sessions, the oldest first, as they were announced; without a position. Waits
/// for the disk.
pub(super) fn load_pending(
    shared: &HubShared,
    cursor: LogCursor,
) -> turnstone_store::Result<Vec<StreamEvent>> {
    let ctx = shared.context();
    let pending = shared.engine.store().read(&ctx, |r| {
        let mut found = Vec::new();
        for request in r.requests().pending(None)? {
            if let Some(session) = r.sessions().find(&request.session)? {
                found.push((request, session));
            }
        }
        Ok(found)
    })?;
    let (mut ids, now) = (IdClock::default(), (shared.clock)());
    let mut events = Vec::with_capacity(pending.len());
    for (request, session) in pending {
        let id = match event_id::ephemeral_id(&mut ids, now) {
            Ok(id) => id,
            Err(error) => {
                tracing::error!("pending requests are not sent: {error}");
                break;
            }
        };
        let (kind, properties) = translation::request_event(&request);
        let scope = EventScope {
            directory: Some(session.directory.as_str().into()),
            project: Some(session.project.as_str().into()),
        };
        events.push(StreamEvent::ephemeral(cursor, scope, WireEvent::new(id, kind, &properties)));
    }
    Ok(events)
}

/// The pending requests that none of `announced` announces already.
pub(super) fn without_announced(
    pending: Vec<StreamEvent>,
    announced: &[StreamEvent],
) -> impl Iterator<Item = StreamEvent> {
    let known: HashSet<String> =
        announced.iter().flat_map(StreamEvent::properties).map(str::to_owned).collect();
    pending.into_iter().filter(move |event| !event.properties().any(|it| known.contains(it)))
}
