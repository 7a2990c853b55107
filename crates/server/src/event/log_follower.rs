//! The thread that follows the log.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnstone_core::id::IdClock;
use turnstone_core::time::LogCursor;
use turnstone_store::{FeedBody, FeedCache, FeedEvent};

use super::event_ring::EventRing;
use super::hub::HubShared;
use super::stream_event::StreamEvent;
use super::translation;

/// How often the thread checks whether a stream is left.
const WAIT_SLICE: Duration = Duration::from_millis(250);
/// Slices after which the log is read without a wake.
const SAFETY_SLICES: u32 = 4;
/// Events read at a time.
const PAGE_EVENTS: usize = 256;
/// Directories whose project is remembered.
const MAX_DIRECTORIES: usize = 1_024;

/// Reads the log from where the ring ends.
#[derive(Default)]
pub(super) struct LogFollower {
    /// Generates the ids of ephemeral events.
    pub(super) ticker: IdClock,
    memo: FeedCache,
    projects: HashMap<String, Arc<str>>,
}

impl HubShared {
    /// Reads and translates what comes after `cursor`. Waits for the disk.
    pub(super) fn read_events(
        &self,
        cursor: LogCursor,
        memo: &mut FeedCache,
    ) -> turnstone_store::Result<Vec<StreamEvent>> {
        let page = self.read_feed_page(cursor, memo)?;
        Ok(page.iter().map(|event| self.translate(event)).collect())
    }

    fn read_feed_page(
        &self,
        after: LogCursor,
        memo: &mut FeedCache,
    ) -> turnstone_store::Result<Vec<FeedEvent>> {
        let ctx = self.context();
        Ok(self.engine.store().read(&ctx, |r| r.feed().after(after, PAGE_EVENTS, memo))?.events)
    }

    fn translate(&self, event: &FeedEvent) -> StreamEvent {
        if event.body == (FeedBody::Stub { is_deleted: false }) {
            return StreamEvent::compacted_gap(event.cursor, event.time);
        }
        translation::to_stream_event(&self.engine, &self.context(), event)
    }
}

impl LogFollower {
    /// Reads on; returns true if there was something.
    pub(super) fn read_to_end(&mut self, shared: &HubShared) -> turnstone_store::Result<bool> {
        let mut is_new = false;
        loop {
            let end = shared.with_ring(EventRing::end);
            let page = shared.read_feed_page(end, &mut self.memo)?;
            if page.is_empty() {
                return Ok(is_new);
            }
            is_new = true;
            for event in &page {
                self.remember_project(event);
            }
            let happenings: Vec<_> = page.iter().map(|event| shared.translate(event)).collect();
            shared.push_events(|_| happenings);
        }
    }

    /// Remembers which project a directory belongs to.
    fn remember_project(&mut self, event: &FeedEvent) {
        let place = event.session.as_ref().and_then(|session| session.location.as_ref());
        let Some((directory, project)) = place else { return };
        if self.projects.get(directory).is_some_and(|known| **known == *project.as_str()) {
            return;
        }
        if self.projects.len() >= MAX_DIRECTORIES {
            self.projects.clear();
        }
        self.projects.insert(directory.clone(), project.as_str().into());
    }

    /// The project of a directory, as far as the log told.
    pub(super) fn known_project(&self, directory: &str) -> Option<Arc<str>> {
        self.projects.get(directory).cloned()
    }
}

/// Starts the thread; it ends when the hub is closed or gone.
pub(super) fn spawn_follower(shared: &Arc<HubShared>) {
    let weak = Arc::downgrade(shared);
    let thread = std::thread::Builder::new().name("turnstone-events".to_owned());
    if let Err(error) = thread.spawn(move || run_follower(&weak)) {
        tracing::error!("the thread that follows the log could not start: {error}");
    }
}

fn run_follower(weak: &Weak<HubShared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let watch = shared.engine.store().commit_watch().clone();
        // Taken before the log is read, so that nothing is missed in between.
        let mark = watch.mark();
        match shared.follow_once() {
            None => return,
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::error!("the log cannot be followed: {error}");
                std::thread::sleep(WAIT_SLICE);
            }
        }
        drop(shared);
        for _ in 0..SAFETY_SLICES {
            if watch.wait(mark, WAIT_SLICE) || weak.strong_count() == 0 {
                break;
            }
        }
    }
}
