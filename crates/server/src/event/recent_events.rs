//! What a client that does not say where it was may have missed.
//!
//! OpenCode's terminal opens a fresh stream after a drop and reads nothing again. It takes whole things by
//! their ids, so telling it the newest state of what was touched lately makes its screen right again.

use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::time::{EpochMillis, LogCursor};

use super::hub::HubShared;
use super::stream_event::StreamEvent;
use super::translation;

/// How far back is looked, in milliseconds.
const RECENT_MS: i64 = 5 * 60 * 1000;
/// How many events are looked at.
const MAX_EVENTS: usize = 1_000;
/// About how much is sent again.
const MAX_BYTES: usize = 4 << 20;
/// For how long an answer is good while nothing happens, in milliseconds.
const CACHE_MS: i64 = 10_000;

/// The last answer: a thousand clients that come back at once get the same.
#[derive(Default)]
pub(super) struct RecentEventsCache(Mutex<Option<CachedRecentEvents>>);

struct CachedRecentEvents {
    upto: LogCursor,
    at: EpochMillis,
    recent: Arc<[StreamEvent]>,
}

impl RecentEventsCache {
    /// What was touched lately, up to `upto`, each thing once. Waits for the disk.
    pub(super) fn up_to(
        &self,
        shared: &HubShared,
        upto: LogCursor,
    ) -> turnstone_store::Result<Arc<[StreamEvent]>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (shared.clock)();
        if let Some(known) = known.as_ref()
            && known.upto == upto
            && now.since(known.at) < CACHE_MS
        {
            return Ok(known.recent.clone());
        }
        let recent = load_recent(shared, upto, now)?;
        *known = Some(CachedRecentEvents { upto, at: now, recent: recent.clone() });
        Ok(recent)
    }
}

fn load_recent(
    shared: &HubShared,
    upto: LogCursor,
    now: EpochMillis,
) -> turnstone_store::Result<Arc<[StreamEvent]>> {
    let (ctx, since) = (shared.context(), now.plus(-RECENT_MS));
    let events = shared
        .engine
        .store()
        .read(&ctx, |r| r.feed().latest_states_since(upto, since, MAX_EVENTS))?;
    let mut bytes = 0;
    let mut recent = Vec::with_capacity(events.len());
    // The newest first: if it is too much, it is the old that is left out.
    for event in events.iter().rev() {
        let stream_event = translation::to_stream_event(&shared.engine, &ctx, event).into_resend();
        bytes += stream_event.memory_bytes();
        if bytes > MAX_BYTES {
            break;
        }
        recent.push(stream_event);
    }
    recent.reverse();
    Ok(recent.into())
}
