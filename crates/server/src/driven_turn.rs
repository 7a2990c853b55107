//! Turns that are driven from outside: who may write which, and until when they are believed to live.
//!
//! This process holds the lease; a driver holds a token. A driver that sends no request for the
//! patience of the server has vanished: a turn that runs is interrupted, one that waits for an answer
//! is given back and can be resumed (R28).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subtle::ConstantTimeEq;
use turnstone_core::id::{PartId, SessionId, TurnId};
use turnstone_core::model::{MessageFailure, MessageFailureKind};
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::{TurnOutcome, TurnState};
use turnstone_engine::{EngineError, ToolRun, Turn};
use turnstone_store::{Context, StoreError, TurnRow};

use crate::app::AppState;
use crate::error::ApiError;
use crate::file_access::HeldFileLock;
use crate::prompt::end_driven_turn;
use crate::random;

/// The turns of this process that are driven from outside.
#[derive(Default)]
pub(crate) struct DrivenTurns {
    by_id: Mutex<HashMap<TurnId, Arc<DrivenTurn>>>,
}

/// One of them.
struct DrivenTurn {
    turn: Turn,
    /// The directory of its session.
    directory: PathBuf,
    token: String,
    last_call: AtomicI64,
    /// Calls that are under way: as long as there are any, the driver lives.
    calls: AtomicUsize,
    tools: Mutex<HashMap<PartId, ToolRun>>,
    /// The files that no one else is to write meanwhile.
    files: Mutex<Option<HeldFileLock>>,
}

/// A turn in use by a call of its driver.
pub(crate) struct TurnUse {
    held: Arc<DrivenTurn>,
    clock: fn() -> EpochMillis,
}

impl TurnUse {
    /// The turn.
    pub(crate) fn turn(&self) -> &Turn {
        &self.held.turn
    }

    /// The directory of its session.
    pub(crate) fn directory(&self) -> &Path {
        &self.held.directory
    }

    /// Keeps a tool that runs.
    pub(crate) fn store_tool_run(&self, part: &PartId, run: ToolRun) {
        lock(&self.held.tools).insert(part.clone(), run);
    }

    /// True while the turn holds a lock on files.
    pub(crate) fn has_file_lock(&self) -> bool {
        lock(&self.held.files).is_some()
    }

    /// Releases the lock on files that the turn holds, and holds another one.
    pub(crate) fn replace_file_lock(&self, next: Option<HeldFileLock>) {
        *lock(&self.held.files) = next;
    }

    /// A tool that runs, if it began in this process.
    pub(crate) fn take_tool_run(&self, part: &PartId) -> Option<ToolRun> {
        lock(&self.held.tools).remove(part)
    }
}

impl Drop for TurnUse {
    fn drop(&mut self) {
        self.held.last_call.store((self.clock)().0, Ordering::Relaxed);
        self.held.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DrivenTurns {
    /// Gives a turn of a session in `directory` to a new driver; the driver before is fenced.
    pub(crate) fn register(
        &self,
        turn: Turn,
        directory: PathBuf,
        now: EpochMillis,
    ) -> Result<(), ApiError> {
        let token = random::random_hex::<16>().map_err(|error| ApiError::unexpected(&error))?;
        let mut held = lock(&self.by_id);
        let tools = held.remove(&turn.id).map(|old| std::mem::take(&mut *lock(&old.tools)));
        let id = turn.id.clone();
        let new = DrivenTurn {
            turn,
            directory,
            token: format!("lease_{token}"),
            last_call: AtomicI64::new(now.0),
            calls: AtomicUsize::new(0),
            tools: Mutex::new(tools.unwrap_or_default()),
            files: Mutex::new(None),
        };
        held.insert(id, Arc::new(new));
        Ok(())
    }

    /// The present token of a turn.
    pub(crate) fn token(&self, turn: &TurnId) -> Option<String> {
        lock(&self.by_id).get(turn).map(|held| held.token.clone())
    }

    /// The turn of a session that is driven from outside, if one is.
    pub(crate) fn find(&self, session: &SessionId) -> Option<Turn> {
        lock(&self.by_id).values().find(|it| it.turn.session == *session).map(|it| it.turn.clone())
    }

    /// True if a turn of a session in `directory` or below it is driven from outside.
    pub(crate) fn is_driven_below(&self, directory: &Path) -> bool {
        lock(&self.by_id).values().any(|it| it.directory.starts_with(directory))
    }

    /// The turns that are driven from outside.
    fn list(&self) -> Vec<Turn> {
        lock(&self.by_id).values().map(|it| it.turn.clone()).collect()
    }

    /// Uses a turn, if the token is its present one.
    pub(crate) fn acquire(
        &self,
        session: &SessionId,
        turn: &TurnId,
        token: &str,
        clock: fn() -> EpochMillis,
    ) -> Option<TurnUse> {
        let held = lock(&self.by_id);
        let is_right = |it: &DrivenTurn| bool::from(it.token.as_bytes().ct_eq(token.as_bytes()));
        let found = held.get(turn).filter(|it| it.turn.session == *session && is_right(it))?;
        found.calls.fetch_add(1, Ordering::Relaxed);
        found.last_call.store(clock().0, Ordering::Relaxed);
        Some(TurnUse { held: found.clone(), clock })
    }

    /// Forgets a turn.
    pub(crate) fn remove(&self, turn: &TurnId) {
        lock(&self.by_id).remove(turn);
    }

    /// The turns whose drivers have been silent for longer than `patience`; they are forgotten.
    fn take_silent(&self, now: EpochMillis, patience: i64) -> Vec<Turn> {
        let mut held = lock(&self.by_id);
        let silent = |it: &DrivenTurn| {
            it.calls.load(Ordering::Relaxed) == 0
                && now.0 - it.last_call.load(Ordering::Relaxed) > patience
        };
        let gone: Vec<TurnId> =
            held.iter().filter(|(_, it)| silent(it)).map(|(id, _)| id.clone()).collect();
        gone.iter().filter_map(|id| held.remove(id)).map(|it| it.turn.clone()).collect()
    }
}

/// Ends the turns that another process asked to be aborted: their drivers know only this one, and
/// learn of it by their next call (R45).
pub(crate) fn end_aborted_turns(app: &AppState) -> Result<(), ApiError> {
    let ctx = Context::system(app.now());
    for turn in app.in_flight().driven_turns.list() {
        let asked = match app.engine().turns().aborts().is_requested(&ctx, &turn) {
            // Deleted with its session: nothing is left to end.
            Err(EngineError::Store(StoreError::NoSession(_) | StoreError::Deleted(_))) => false,
            asked => asked?,
        };
        if asked {
            abort_driven_turn(app, &ctx, &turn)?;
        }
    }
    Ok(())
}

/// Stops a turn that is driven from outside; the prompts that wait in the inbox stay (R29).
pub(crate) fn abort_driven_turn(
    app: &AppState,
    ctx: &Context,
    turn: &Turn,
) -> Result<(), ApiError> {
    // Whether it ended by itself at this very moment is all the same.
    let _here = end_driven_turn(app, ctx, turn, TurnOutcome::Aborted, None)?;
    Ok(())
}

/// Ends the turns whose drivers have vanished: no session stays busy without end.
pub(crate) fn end_silent_turns(app: &AppState) -> Result<(), ApiError> {
    let now = app.now();
    let patience = i64::try_from(app.settings().limits.driver_timeout_ms).unwrap_or(i64::MAX);
    let ctx = Context::system(now);
    for turn in app.in_flight().driven_turns.take_silent(now, patience) {
        app.runners().notify_waiters();
        let row = match require_turn_row(app, &ctx, &turn.session, &turn.id) {
            Ok(row) => row,
            // Deleted with its session: nothing is left to end.
            Err(ApiError::NotFound(_)) => continue,
            Err(error) => return Err(error),
        };
        match row.state {
            TurnState::Running | TurnState::Accepted => {
                let words = "The program that ran this turn stopped sending requests";
                let why = MessageFailure::new(MessageFailureKind::MessageAbortedError, words);
                // If another process ended it, or has it, there is nothing left to do.
                let _here = end_driven_turn(app, &ctx, &turn, TurnOutcome::Interrupted, Some(why))?;
            }
            TurnState::Waiting => app.engine().turns().release(&ctx, &turn)?,
            TurnState::Completed
            | TurnState::Failed
            | TurnState::Aborted
            | TurnState::Interrupted => app.engine().maintenance().recover_all(&ctx).map(drop)?,
        }
    }
    Ok(())
}

/// The row of a turn.
pub(crate) fn require_turn_row(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    turn: &TurnId,
) -> Result<TurnRow, ApiError> {
    let turns = app.engine().store().read(ctx, |r| r.turns().list(session))?;
    let found = turns.into_iter().find(|row| row.id == *turn);
    found.ok_or_else(|| ApiError::NotFound(format!("Turn not found: {turn}")))
}
