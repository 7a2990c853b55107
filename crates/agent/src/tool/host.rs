//! What a tool is, and what the loop gives a running one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use turnstone_core::call_context::Context;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{PermissionAsk, Question};
use turnstone_engine::{Engine, Turn};

use super::{ToolError, ToolReply};
use crate::model::ToolSchema;

/// A tool that a model may call.
///
/// A tool opens the change sets of what it writes itself, for the part of its call and after it has asked: what a
/// person saves while they are asked is theirs. The loop therefore begins the call with `ToolFileAccess::Nothing`, and
/// uses [`Self::written_paths`] only to decide which calls run at the same time.
pub trait Tool: Send + Sync {
    /// Returns the name, description and schema that the model sees.
    fn schema(&self) -> ToolSchema;

    /// Returns the absolute paths that a call with `input` writes, `Some(vec![])` if it writes none,
    /// `None` if they cannot be known before. Calls whose paths are disjoint run at the same time.
    fn written_paths(&self, scope: &ToolScope, input: &Value) -> Option<Vec<PathBuf>>;

    /// Runs one call on a thread of its own and returns what the model reads.
    ///
    /// # Errors
    ///
    /// What the model reads instead, or that the turn must stop.
    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError>;
}

/// Where and for whom a call runs; the same for all calls of a step.
#[derive(Clone, Debug)]
pub struct ToolScope {
    /// The session.
    pub session: SessionId,
    /// The answer that the call belongs to.
    pub message: MessageId,
    /// The agent that calls.
    pub agent: String,
    /// `provider/model` of the answer.
    pub model: String,
    /// The directory of the session: relative paths start here.
    pub directory: PathBuf,
    /// The root of the worktree; `/` outside of a repository.
    pub worktree: PathBuf,
    /// Turnstone's data directory, for spill files of long output.
    pub data_directory: PathBuf,
}

/// What a running call may use.
pub trait ToolHost: Send + Sync {
    /// Returns the engine.
    fn engine(&self) -> &Engine;

    /// Returns the context of a call of the engine, with the present time.
    fn context(&self) -> Context;

    /// Returns the turn that runs.
    fn turn(&self) -> &Turn;

    /// Returns where and for whom the call runs.
    fn scope(&self) -> &ToolScope;

    /// Returns the part of the call.
    fn part(&self) -> &PartId;

    /// Returns the provider's name of the call.
    fn call(&self) -> &str;

    /// Asks whether the call may do something; returns when it may. The host adds which call asks.
    ///
    /// # Errors
    ///
    /// [`ToolError::Denied`] by a rule, [`ToolError::Rejected`] by a person, [`ToolError::Aborted`].
    fn ask(&self, ask: PermissionAsk) -> Result<(), ToolError>;

    /// Asks a person to choose; returns the chosen labels of each question.
    ///
    /// # Errors
    ///
    /// [`ToolError::Rejected`] if the questions are dismissed, [`ToolError::Aborted`].
    fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, ToolError>;

    /// Replaces the title and metadata that clients show while the call runs. The processes of the call, which the
    /// engine has recorded in the stored part, stay recorded: see `CallCommands::show`.
    fn show(&self, title: Option<String>, metadata: Map<String, Value>);

    /// Returns the signal that ends the call early.
    fn abort(&self) -> &Arc<ToolAbort>;

    /// Runs a subagent in a child session and returns its last text.
    ///
    /// # Errors
    ///
    /// The agent does not exist or may not be called, or the subagent failed.
    fn run_subagent(&self, task: SubagentTask) -> Result<SubagentOutcome, ToolError>;
}

/// What a subagent is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    /// The agent.
    pub agent: String,
    /// Three to five words for people.
    pub description: String,
    /// The prompt.
    pub prompt: String,
    /// A child session to continue.
    pub session: Option<String>,
}

/// What became of a subagent's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentOutcome {
    /// The child session.
    pub session: SessionId,
    /// Its last text.
    pub text: String,
    /// `provider/model` that answered.
    pub model: String,
}

/// Why a wait of a running call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortWait {
    /// The call must end.
    Requested,
    /// What it waited for is over.
    Over,
    /// The time has passed.
    TimedOut,
}

/// Tells a running call that it must end.
#[derive(Default)]
pub struct ToolAbort {
    state: Mutex<AbortState>,
    changed: Condvar,
}

#[derive(Default)]
struct AbortState {
    is_requested: bool,
    hooks: Vec<Box<dyn FnOnce() + Send>>,
}

impl ToolAbort {
    /// Asks the call to end.
    pub fn request(&self) {
        let hooks = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_requested = true;
            std::mem::take(&mut state.hooks)
        };
        self.changed.notify_all();
        hooks.into_iter().for_each(|hook| hook());
    }

    /// Runs `hook` when the call must end, at once if it must already.
    pub fn on_request(&self, hook: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.is_requested {
            state.hooks.push(Box::new(hook));
            return;
        }
        drop(state);
        hook();
    }

    /// True once the call must end.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_requested
    }

    /// Waits until the call must end, what it waits for is over, or `limit` has passed. The caller that sets `is_over`
    /// also calls [`Self::wake`].
    #[must_use]
    pub fn wait_while_running(&self, limit: Duration, is_over: &AtomicBool) -> AbortWait {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_running =
            |state: &mut AbortState| !state.is_requested && !is_over.load(Ordering::SeqCst);
        let waited = self.changed.wait_timeout_while(state, limit, is_running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (state.is_requested, is_over.load(Ordering::SeqCst)) {
            (_, true) => AbortWait::Over,
            (true, false) => AbortWait::Requested,
            (false, false) => AbortWait::TimedOut,
        }
    }

    /// Lets every waiting thread look again.
    pub fn wake(&self) {
        // Under the lock: a thread that is about to wait has not looked yet, or is woken.
        let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    /// Waits until the call must end or `limit` has passed; returns whether it must end.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, limit, |state| !state.is_requested);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_requested
    }
}
