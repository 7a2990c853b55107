//! Whether a turn waits: nothing of it can go on before a person has answered (R28).

use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::call_context::Context;
use turnstone_engine::{Engine, Result, Turn};

/// Counts what of a turn is under way and what waits for an answer, and keeps the state of the turn in step:
/// a turn whose calls all wait survives the end of the process.
pub(crate) struct WaitGate {
    engine: Arc<Engine>,
    turn: Turn,
    /// The gate of the turn whose call started this one: it waits when this one does.
    outer: Option<Arc<WaitGate>>,
    counts: Mutex<GateCounts>,
}

#[derive(Default)]
struct GateCounts {
    /// The model answers.
    streams: usize,
    calls: usize,
    asking: usize,
    is_suspended: bool,
}

impl WaitGate {
    pub(crate) fn new(engine: Arc<Engine>, turn: Turn, outer: Option<Arc<Self>>) -> Self {
        Self { engine, turn, outer, counts: Mutex::default() }
    }

    /// A model begins to answer.
    pub(crate) fn open_stream(&self, ctx: &Context) -> Result<()> {
        self.update(ctx, |counts| counts.streams += 1)
    }

    /// The answer of a model is complete, or given up.
    pub(crate) fn close_stream(&self, ctx: &Context) -> Result<()> {
        self.update(ctx, |counts| counts.streams = counts.streams.saturating_sub(1))
    }

    /// A call starts.
    pub(crate) fn begin_call(&self, ctx: &Context) -> Result<()> {
        self.update(ctx, |counts| counts.calls += 1)
    }

    /// A call has ended.
    pub(crate) fn end_call(&self, ctx: &Context) -> Result<()> {
        self.update(ctx, |counts| counts.calls = counts.calls.saturating_sub(1))
    }

    /// A call waits for an answer.
    pub(crate) fn begin_wait(&self, ctx: &Context) -> Result<()> {
        self.update(ctx, |counts| counts.asking += 1)
    }

    /// A call has its answer.
    pub(crate) fn end_wait(&self, ctx: &Context) -> Result<()> {
        self.update(ctx, |counts| counts.asking = counts.asking.saturating_sub(1))
    }

    /// True while the turn waits for a person.
    pub(crate) fn is_suspended(&self) -> bool {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).is_suspended
    }

    /// Changes the counts, then the state of the turn where it follows from them. The lock is held
    /// meanwhile: two changes must not reach the database in the wrong order.
    fn update(&self, ctx: &Context, change: impl FnOnce(&mut GateCounts)) -> Result<()> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        let must_wait = counts.streams == 0 && counts.asking > 0 && counts.asking == counts.calls;
        if must_wait == counts.is_suspended {
            return Ok(());
        }
        match must_wait {
            true => {
                self.engine.permissions().suspend_turn(ctx, &self.turn)?;
                counts.is_suspended = true;
                self.outer.as_ref().map_or(Ok(()), |outer| outer.begin_wait(ctx))
            }
            false => {
                if let Some(outer) = &self.outer {
                    outer.end_wait(ctx)?;
                }
                self.engine.permissions().continue_turn(ctx, &self.turn)?;
                counts.is_suspended = false;
                Ok(())
            }
        }
    }
}
