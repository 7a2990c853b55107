//! What a client that does not say where it was may have missed.
//!
//! OpenCode's terminal opens a fresh stream after a drop and reads nothing anew. It takes whole things by
//! their ids, so telling it the newest state of what was touched lately makes its screen right again.

use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::time::{Cursor, Millis};

use super::happening::Happening;
use super::hub::Shared;
use super::translate;

/// How far back is looked, in milliseconds.
const LATELY: i64 = 5 * 60 * 1000;
/// How many events are looked at.
const EVENTS: usize = 1_000;
/// How much is told again, about.
const BYTES: usize = 4 << 20;
/// For how long an answer is good while nothing happens, in milliseconds.
const FRESH: i64 = 10_000;

/// The last answer: a thousand clients that come back at once are told the same.
#[derive(Default)]
pub(super) struct Recent(Mutex<Option<Known>>);

struct Known {
    upto: Cursor,
    at: Millis,
    told: Arc<[Happening]>,
}

impl Recent {
    /// What was touched lately, up to `upto`, each thing once. Waits for the disk.
    pub(super) fn before(
        &self,
        shared: &Shared,
        upto: Cursor,
    ) -> turnstone_store::Result<Arc<[Happening]>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (shared.clock)();
        if let Some(known) = known.as_ref()
            && known.upto == upto
            && now.since(known.at) < FRESH
        {
            return Ok(known.told.clone());
        }
        let told = find(shared, upto, now)?;
        *known = Some(Known { upto, at: now, told: told.clone() });
        Ok(told)
    }
}

fn find(shared: &Shared, upto: Cursor, now: Millis) -> turnstone_store::Result<Arc<[Happening]>> {
    let (ctx, since) = (shared.context(), now.plus(-LATELY));
    let events = shared.engine.store().read(&ctx, |r| r.feed_recent(upto, since, EVENTS))?;
    let mut bytes = 0;
    let mut told = Vec::with_capacity(events.len());
    // The newest first: if it is too much, it is the old that is left out.
    for event in events.iter().rev() {
        let happening = translate::happening(&shared.engine, &ctx, event).retold();
        bytes += happening.weight();
        if bytes > BYTES {
            break;
        }
        told.push(happening);
    }
    told.reverse();
    Ok(told.into())
}
