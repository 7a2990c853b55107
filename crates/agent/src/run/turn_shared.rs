//! What the threads of one running turn share.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use turnstone_core::call_context::Context;
use turnstone_core::id::SessionId;
use turnstone_core::model::{RequestId, RequestState};
use turnstone_engine::{Engine, Turn};

use super::agent_runner::RunnerShared;
use super::gate::WaitGate;
use crate::tool::{ToolAbort, ToolError};

/// How often a pending request is looked at without a signal.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What the threads of one running turn share.
pub(crate) struct TurnShared {
    pub(crate) runner: Arc<RunnerShared>,
    pub(crate) turn: Turn,
    /// The directory of the session.
    pub(crate) directory: PathBuf,
    /// The root of its worktree.
    pub(crate) worktree: PathBuf,
    /// The session whose call started this one.
    pub(crate) parent: Option<SessionId>,
    pub(crate) gate: Arc<WaitGate>,
    pub(crate) answers: Arc<AnswerSignal>,
    /// How many turns are above this one.
    pub(crate) depth: u32,
    /// The turn was resumed: its calls may have asked before.
    pub(crate) is_resumed: bool,
    pub(crate) instructions: OnceLock<Vec<(String, String)>>,
}

impl TurnShared {
    pub(crate) fn engine(&self) -> &Engine {
        &self.runner.engine
    }

    pub(crate) fn context(&self) -> Context {
        self.runner.context()
    }

    /// Returns the instructions for the session, each with its source; read once for each turn.
    pub(crate) fn instructions(&self) -> &[(String, String)] {
        self.instructions
            .get_or_init(|| self.runner.settings.instructions(&self.directory, &self.worktree))
    }

    /// Waits until a request is answered.
    ///
    /// # Errors
    ///
    /// [`ToolError::Aborted`], or the database cannot be read.
    pub(crate) fn wait_for_answer(
        &self,
        request: &RequestId,
        abort: &ToolAbort,
    ) -> Result<RequestState, ToolError> {
        loop {
            let mark = self.answers.mark();
            let state = self.engine().permissions().request_state(&self.context(), request);
            let state = state.map_err(|error| ToolError::failed(error.to_string()))?;
            if !state.is_pending() {
                return Ok(state);
            }
            if abort.is_requested() {
                return Err(ToolError::Aborted);
            }
            self.answers.wait(mark, POLL_INTERVAL);
        }
    }
}

/// Wakes the calls that wait for answers.
#[derive(Default)]
pub(crate) struct AnswerSignal {
    count: Mutex<u64>,
    changed: Condvar,
}

impl AnswerSignal {
    /// Wakes every waiting call.
    pub(crate) fn notify(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Returns where to wait from; take it before looking.
    fn mark(&self) -> u64 {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, mark: u64, limit: Duration) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(count, limit, |count| *count == mark);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
