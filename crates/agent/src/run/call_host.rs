//! What a running call may use: the host of a tool.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use turnstone_core::call_context::Context;
use turnstone_core::id::PartId;
use turnstone_core::model::{
    ExtraFields, Part, PartBody, PermissionAsk, PermissionReply, Question, QuestionAsk,
    RequestBody, RequestId, RequestState, ToolCallRef, ToolState,
};
use turnstone_core::permission::PermissionRule;
use turnstone_engine::{
    CallCommands, Engine, EngineError, PermissionOutcome, PermissionQuery, Turn,
};

use super::subagent;
use super::turn_shared::TurnShared;
use crate::tool::{SubagentOutcome, SubagentTask, ToolAbort, ToolError, ToolHost, ToolScope};

/// Clients strike a call through that ended with these words.
const REJECTED: &str = "The user rejected permission to use this specific tool call.";
const DISMISSED: &str = "The user dismissed this question";

/// The host of one call.
pub(crate) struct CallHost {
    pub(crate) shared: Arc<TurnShared>,
    pub(crate) scope: ToolScope,
    pub(crate) call: String,
    pub(crate) abort: Arc<ToolAbort>,
    pub(crate) id: PartId,
    /// The part as it was stored last; shared with the loop, which ends the call.
    pub(crate) part: Mutex<Part>,
}

impl CallHost {
    fn call_ref(&self) -> ToolCallRef {
        ToolCallRef {
            message: self.scope.message.clone(),
            call: self.call.clone(),
            extra: ExtraFields::new(),
        }
    }

    /// Returns the state of a request about the same that this call made before its process died.
    fn find_earlier_request(
        &self,
        is_same: impl Fn(&RequestBody) -> bool,
    ) -> Result<Option<(RequestId, RequestState)>, ToolError> {
        if !self.shared.is_resumed {
            return Ok(None);
        }
        let requests = self.engine().permissions().list_requests_of_call(
            &self.context(),
            &self.scope.session,
            (&self.scope.message, &self.call),
        );
        let found = requests.map_err(engine_failure)?.into_iter().find(|it| is_same(&it.body));
        Ok(found.map(|it| (it.id, it.state)))
    }

    /// Waits for the answer to a request; the turn waits with it if nothing else of it can go on.
    fn wait_for(&self, request: &RequestId) -> Result<RequestState, ToolError> {
        let gate = &self.shared.gate;
        gate.begin_wait(&self.context()).map_err(engine_failure)?;
        let answer = self.shared.wait_for_answer(request, &self.abort);
        gate.end_wait(&self.context()).map_err(engine_failure)?;
        answer
    }

    /// Returns the answer to a request, and waits for it if there is none.
    fn answer_of(&self, id: &RequestId, state: RequestState) -> Result<RequestState, ToolError> {
        if state.is_pending() { self.wait_for(id) } else { Ok(state) }
    }

    fn decide_permission(&self, ask: PermissionAsk) -> Result<(), ToolError> {
        let (permission, patterns) = (ask.permission.clone(), ask.patterns.clone());
        let is_same = |body: &RequestBody| {
            matches!(body, RequestBody::Permission(earlier) if earlier.permission == permission
                && patterns.iter().all(|pattern| earlier.patterns.contains(pattern)))
        };
        if let Some((id, state)) = self.find_earlier_request(is_same)? {
            return permission_answer(self.answer_of(&id, state)?);
        }
        let query = PermissionQuery { ask, blocks_turn: false };
        let asked = self.engine().permissions().ask(&self.context(), self.turn(), &query);
        match asked.map_err(engine_failure)? {
            PermissionOutcome::Allowed => Ok(()),
            PermissionOutcome::Denied(rules) => Err(ToolError::Denied(denial_text(&rules))),
            PermissionOutcome::Pending(id) => {
                permission_answer(self.wait_for(&RequestId::Permission(id))?)
            }
        }
    }
}

impl ToolHost for CallHost {
    fn engine(&self) -> &Engine {
        self.shared.engine()
    }

    fn context(&self) -> Context {
        self.shared.context()
    }

    fn turn(&self) -> &Turn {
        &self.shared.turn
    }

    fn scope(&self) -> &ToolScope {
        &self.scope
    }

    fn part(&self) -> &PartId {
        &self.id
    }

    fn call(&self) -> &str {
        &self.call
    }

    fn ask(&self, mut ask: PermissionAsk) -> Result<(), ToolError> {
        ask.tool = Some(self.call_ref());
        self.decide_permission(ask)
    }

    fn ask_questions(&self, questions: Vec<Question>) -> Result<Vec<Vec<String>>, ToolError> {
        let tool = Some(self.call_ref());
        let is_question = |body: &RequestBody| matches!(body, RequestBody::Question(_));
        let (id, state) = match self.find_earlier_request(is_question)? {
            Some(found) => found,
            None => {
                let ask = QuestionAsk { questions, tool, extra: ExtraFields::new() };
                let ctx = self.context();
                let id = self.engine().permissions().ask_question(&ctx, self.turn(), ask, false);
                (RequestId::Question(id.map_err(engine_failure)?), RequestState::Pending)
            }
        };
        match self.answer_of(&id, state)? {
            RequestState::Answered { answers } => Ok(answers),
            RequestState::Rejected | RequestState::Replied { .. } => {
                Err(ToolError::Rejected(DISMISSED.to_owned()))
            }
            RequestState::Pending | RequestState::Withdrawn => Err(ToolError::Aborted),
        }
    }

    fn show(&self, title: Option<String>, metadata: Map<String, Value>) {
        let mut part = self.part.lock().unwrap_or_else(PoisonError::into_inner);
        let PartBody::Tool(tool) = &mut part.body else { return };
        let ToolState::Running { title: shown, metadata: known, .. } = &mut tool.state else {
            return;
        };
        shown.clone_from(&title);
        *known = Some(Value::Object(metadata.clone()));
        drop(part);
        let clock = || self.context();
        let (commands, turn) = (self.engine().turns().commands(), self.turn());
        let call = CallCommands { commands, turn, part: &self.id, clock: &clock };
        // Only a view of a call that goes on: its end stores the result, or says what failed. What the engine has
        // recorded in the stored part, the processes of the call, stays there.
        let _stored = call.show(title.as_deref(), &metadata);
    }

    fn abort(&self) -> &Arc<ToolAbort> {
        &self.abort
    }

    fn run_subagent(&self, task: SubagentTask) -> Result<SubagentOutcome, ToolError> {
        subagent::run_subagent(self, &task)
    }
}

/// What an answer to a permission request means for the call.
fn permission_answer(state: RequestState) -> Result<(), ToolError> {
    match state {
        RequestState::Replied {
            reply: PermissionReply::Once | PermissionReply::Always, ..
        } => Ok(()),
        RequestState::Replied { reply: PermissionReply::Reject, message, .. } => Err(match message
            .filter(|message| !message.trim().is_empty())
        {
            Some(message) => ToolError::Corrected(format!("{REJECTED} The user said: {message}")),
            None => ToolError::Rejected(REJECTED.to_owned()),
        }),
        RequestState::Rejected | RequestState::Answered { .. } => {
            Err(ToolError::Rejected(REJECTED.to_owned()))
        }
        RequestState::Pending | RequestState::Withdrawn => Err(ToolError::Aborted),
    }
}

/// What a model reads of a call that the rules deny.
fn denial_text(rules: &[PermissionRule]) -> String {
    let rules = serde_json::to_string(rules).unwrap_or_default();
    format!("The user has specified a rule which prevents this tool call. Relevant rules: {rules}")
}

/// A call whose request the engine refused.
#[expect(clippy::needless_pass_by_value, reason = "it is an argument of `map_err`")]
pub(crate) fn engine_failure(error: EngineError) -> ToolError {
    match error.is_turn_lost() {
        true => ToolError::Aborted,
        false => ToolError::failed(error.to_string()),
    }
}
