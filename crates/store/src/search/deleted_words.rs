//! Words of deleted documents: FTS5 only marks such documents, and the words stay in its segments until these are
//! merged. Here they are merged until none is left, in steps that fit a transaction (R23).

use turnstone_core::call_context::Context;

use super::indexer::SessionSearch;
use super::segment_merge::{self, MergeStepSize, SegmentMergeOutcome};
use crate::error::{Result, StoreError};

/// Steps without any progress after which the index is rebuilt instead.
const MAX_IDLE_STEPS: usize = 50;

impl SessionSearch<'_> {
    /// Brings the index up to date and removes the words of deleted documents from it.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`], or what the database refuses; a repeat continues.
    pub(crate) fn erase_deleted_words(&self, ctx: &Context) -> Result<()> {
        self.index_batches(ctx, usize::MAX)?;
        let mut idle = 0;
        loop {
            let before = self.store.read(ctx, |r| segment_merge::count_deleted(r.conn))?;
            let Some(before) = before else {
                // A record that cannot be read says nothing about what is left.
                return self.rebuild(ctx).map(drop);
            };
            if before.documents == 0 {
                return Ok(());
            }
            match self.erase_step(ctx) {
                Ok(SegmentMergeOutcome::Stuck) | Err(StoreError::TooLarge { .. }) => {
                    return self.rebuild(ctx).map(drop);
                }
                Ok(SegmentMergeOutcome::Progressed | SegmentMergeOutcome::Nothing) => {}
                Err(error) => return Err(error),
            }
            let after = self.store.read(ctx, |r| segment_merge::count_deleted(r.conn))?;
            idle = if after == Some(before) { idle + 1 } else { 0 };
            if idle > MAX_IDLE_STEPS {
                return self.rebuild(ctx).map(drop);
            }
        }
    }

    fn erase_step(&self, ctx: &Context) -> Result<SegmentMergeOutcome> {
        let step = |size| {
            self.store.write(ctx, move |tx| segment_merge::erase_deleted_step(tx, size)).wait()
        };
        match step(MergeStepSize::Pages) {
            Err(StoreError::TooLarge { .. }) => step(MergeStepSize::SingleTerm),
            done => done,
        }
    }
}
