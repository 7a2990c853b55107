//! Turns that are driven from outside: who may write which, and until when they are believed to live.
//!
//! This process holds the lease; a driver holds a token. A driver that is not heard of for the
//! patience of the server has vanished: a turn that runs is interrupted, one that waits for an answer
//! is given back and can be resumed (R28).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subtle::ConstantTimeEq;
use turnstone_core::id::{PartId, SessionId, TurnId};
use turnstone_core::model::{Failure, FailureKind};
use turnstone_core::time::Millis;
use turnstone_core::turn::{Outcome, TurnState};
use turnstone_engine::{EngineError, ToolRun, Turn};
use turnstone_store::{Context, StoreError};

use crate::app::App;
use crate::error::ApiError;

/// The turns of this process that are driven from outside.
#[derive(Default)]
pub(crate) struct Turns {
    held: Mutex<HashMap<TurnId, Arc<Held>>>,
}

/// One of them.
struct Held {
    turn: Turn,
    /// The directory of its session.
    directory: PathBuf,
    token: String,
    seen: AtomicI64,
    /// Calls that are under way: as long as there are any, the driver lives.
    calls: AtomicUsize,
    tools: Mutex<HashMap<PartId, ToolRun>>,
}

/// A turn in use by a call of its driver.
pub(crate) struct Using {
    held: Arc<Held>,
    clock: fn() -> Millis,
}

impl Using {
    /// The turn.
    pub(crate) fn turn(&self) -> &Turn {
        &self.held.turn
    }

    /// The directory of its session.
    pub(crate) fn directory(&self) -> &Path {
        &self.held.directory
    }

    /// Keeps a tool that runs.
    pub(crate) fn began_tool(&self, part: &PartId, run: ToolRun) {
        lock(&self.held.tools).insert(part.clone(), run);
    }

    /// A tool that runs, if it began in this process.
    pub(crate) fn tool(&self, part: &PartId) -> Option<ToolRun> {
        lock(&self.held.tools).remove(part)
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.held.seen.store((self.clock)().0, Ordering::Relaxed);
        self.held.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Gives a turn of a session in `directory` to a new driver; whoever drove it is fenced.
    pub(crate) fn hold(&self, turn: Turn, directory: PathBuf, now: Millis) -> Result<(), ApiError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|e| ApiError::unexpected(&std::io::Error::other(e)))?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut held = lock(&self.held);
        let tools = held.remove(&turn.id).map(|old| std::mem::take(&mut *lock(&old.tools)));
        let id = turn.id.clone();
        let new = Held {
            turn,
            directory,
            token: format!("lease_{token}"),
            seen: AtomicI64::new(now.0),
            calls: AtomicUsize::new(0),
            tools: Mutex::new(tools.unwrap_or_default()),
        };
        held.insert(id, Arc::new(new));
        Ok(())
    }

    /// The present token of a turn.
    pub(crate) fn token(&self, turn: &TurnId) -> Option<String> {
        lock(&self.held).get(turn).map(|held| held.token.clone())
    }

    /// The turn of a session that is driven from outside, if one is.
    pub(crate) fn find(&self, session: &SessionId) -> Option<Turn> {
        lock(&self.held).values().find(|it| it.turn.session == *session).map(|it| it.turn.clone())
    }

    /// True if a turn of a session in `directory` or below it is driven from outside.
    pub(crate) fn is_driven_below(&self, directory: &Path) -> bool {
        lock(&self.held).values().any(|it| it.directory.starts_with(directory))
    }

    /// The turns that are driven from outside.
    fn all(&self) -> Vec<Turn> {
        lock(&self.held).values().map(|it| it.turn.clone()).collect()
    }

    /// Uses a turn, if the token is its present one.
    pub(crate) fn using(
        &self,
        session: &SessionId,
        turn: &TurnId,
        token: &str,
        clock: fn() -> Millis,
    ) -> Option<Using> {
        let held = lock(&self.held);
        let is_right = |it: &Held| bool::from(it.token.as_bytes().ct_eq(token.as_bytes()));
        let found = held.get(turn).filter(|it| it.turn.session == *session && is_right(it))?;
        found.calls.fetch_add(1, Ordering::Relaxed);
        found.seen.store(clock().0, Ordering::Relaxed);
        Some(Using { held: found.clone(), clock })
    }

    /// Forgets a turn.
    pub(crate) fn let_go(&self, turn: &TurnId) {
        lock(&self.held).remove(turn);
    }

    /// The turns whose drivers have been silent for longer than `patience`; they are forgotten.
    fn lapsed(&self, now: Millis, patience: i64) -> Vec<Turn> {
        let mut held = lock(&self.held);
        let silent = |it: &Held| {
            it.calls.load(Ordering::Relaxed) == 0
                && now.0 - it.seen.load(Ordering::Relaxed) > patience
        };
        let gone: Vec<TurnId> =
            held.iter().filter(|(_, it)| silent(it)).map(|(id, _)| id.clone()).collect();
        gone.iter().filter_map(|id| held.remove(id)).map(|it| it.turn.clone()).collect()
    }
}

impl App {
    /// Ends the turns that another process asked to be aborted: their drivers know only this one, and
    /// learn of it by their next call (R45).
    pub(crate) fn end_aborted(&self) -> Result<(), ApiError> {
        let ctx = Context::system(self.now());
        for turn in self.work().turns.all() {
            let asked = match self.engine().is_abort_asked(&ctx, &turn) {
                // Deleted with its session: nothing is left to end.
                Err(EngineError::Store(StoreError::NoSession(_) | StoreError::Deleted(_))) => false,
                asked => asked?,
            };
            if asked {
                self.abort_driven(&ctx, &turn)?;
            }
        }
        Ok(())
    }

    /// Stops a turn that is driven from outside; the prompts that wait in the inbox stay (R29).
    pub(crate) fn abort_driven(&self, ctx: &Context, turn: &Turn) -> Result<(), ApiError> {
        // Whether it ended by itself at this very moment is all the same.
        let _here = self.end_driven(ctx, turn, Outcome::Aborted, None)?;
        Ok(())
    }

    /// Ends the turns whose drivers have vanished: nothing stays busy for ever.
    pub(crate) fn end_vanished(&self) -> Result<(), ApiError> {
        let now = self.now();
        let patience = i64::try_from(self.settings().limits.patience).unwrap_or(i64::MAX);
        let ctx = Context::system(now);
        for turn in self.work().turns.lapsed(now, patience) {
            self.runners().stir();
            let row = match self.turn_row(&ctx, &turn.session, &turn.id) {
                Ok(row) => row,
                // Deleted with its session: nothing is left to end.
                Err(ApiError::NotFound(_)) => continue,
                Err(error) => return Err(error),
            };
            match row.state {
                TurnState::Running | TurnState::Accepted => {
                    let words = "The program that ran this turn was not heard of any more";
                    let why = Failure::new(FailureKind::MessageAbortedError, words);
                    // If somebody else ended it, or has it: that is what was wanted.
                    let _here = self.end_driven(&ctx, &turn, Outcome::Interrupted, Some(why))?;
                }
                TurnState::Waiting => {
                    match self.engine().store().release(&ctx, &turn.lease) {
                        Ok(_) | Err(StoreError::Fenced(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                    self.engine().recover(&ctx)?;
                }
                TurnState::Completed
                | TurnState::Failed
                | TurnState::Aborted
                | TurnState::Interrupted => self.engine().recover(&ctx).map(drop)?,
            }
        }
        Ok(())
    }
}
