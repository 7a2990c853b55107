//! The thread that follows the log.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnstone_core::id::Ticker;
use turnstone_core::time::Cursor;
use turnstone_store::{FeedBody, FeedEvent, FeedMemo};

use super::happening::Happening;
use super::hub::Shared;
use super::ring::Ring;
use super::translate;

/// How often the thread looks whether anybody is left.
const SLICE: Duration = Duration::from_millis(250);
/// Slices after which the log is read without a wake.
const SAFETY: u32 = 4;
/// Events read at a time.
const PAGE: usize = 256;
/// Directories whose project is remembered.
const DIRECTORIES: usize = 1_024;

/// Reads the log from where the ring ends.
#[derive(Default)]
pub(super) struct Follower {
    /// Makes names for what is in no log.
    pub(super) ticker: Ticker,
    memo: FeedMemo,
    projects: HashMap<String, Arc<str>>,
}

impl Shared {
    /// Reads and translates what comes after `cursor`. Waits for the disk.
    pub(super) fn piece(
        &self,
        cursor: Cursor,
        memo: &mut FeedMemo,
    ) -> turnstone_store::Result<Vec<Happening>> {
        let page = self.page(cursor, memo)?;
        Ok(page.iter().map(|event| self.translate(event)).collect())
    }

    fn page(&self, after: Cursor, memo: &mut FeedMemo) -> turnstone_store::Result<Vec<FeedEvent>> {
        let ctx = self.context();
        Ok(self.engine.store().read(&ctx, |r| r.feed_after(after, PAGE, memo))?.events)
    }

    fn translate(&self, event: &FeedEvent) -> Happening {
        match event.body {
            FeedBody::Stub { is_deleted: false } => Happening::gap(event.cursor, event.time),
            _ => translate::happening(&self.engine, &self.context(), event),
        }
    }
}

impl Follower {
    /// Reads on; returns true if there was something.
    pub(super) fn drain(&mut self, shared: &Shared) -> turnstone_store::Result<bool> {
        let mut is_new = false;
        loop {
            let end = shared.ring(Ring::end);
            let page = shared.page(end, &mut self.memo)?;
            if page.is_empty() {
                return Ok(is_new);
            }
            is_new = true;
            for event in &page {
                self.learn(event);
            }
            let happenings: Vec<_> = page.iter().map(|event| shared.translate(event)).collect();
            shared.push(|_| happenings);
        }
    }

    /// Remembers which project a directory belongs to.
    fn learn(&mut self, event: &FeedEvent) {
        let place = event.session.as_ref().and_then(|session| session.place.as_ref());
        let Some((directory, project)) = place else { return };
        if self.projects.get(directory).is_some_and(|known| **known == *project.as_str()) {
            return;
        }
        if self.projects.len() >= DIRECTORIES {
            self.projects.clear();
        }
        self.projects.insert(directory.clone(), project.as_str().into());
    }

    /// The project of a directory, as far as the log told.
    pub(super) fn project_of(&self, directory: &str) -> Option<Arc<str>> {
        self.projects.get(directory).cloned()
    }
}

/// Starts the thread; it ends when the hub is closed or gone.
pub(super) fn start(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    let thread = std::thread::Builder::new().name("turnstone-events".to_owned());
    if let Err(error) = thread.spawn(move || follow(&weak)) {
        tracing::error!("nobody follows the log: {error}");
    }
}

fn follow(weak: &Weak<Shared>) {
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let watch = shared.engine.store().watch().clone();
        // Taken before the log is read, so that nothing is missed in between.
        let mark = watch.mark();
        match shared.follow() {
            None => return,
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::error!("the log cannot be followed: {error}");
                std::thread::sleep(SLICE);
            }
        }
        drop(shared);
        for _ in 0..SAFETY {
            if watch.wait(mark, SLICE) || weak.strong_count() == 0 {
                break;
            }
        }
    }
}
