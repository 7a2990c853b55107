//! One turn: step after step, until the newest prompt has its answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;
use turnstone_core::context::{ContextMessage, is_overflow};
use turnstone_core::id::PartId;
use turnstone_core::model::{
    Message, MessageBody, MessageFailure, MessageFailureKind, UserMessage,
};
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{CompactionRequest, Result, TurnSignal};

use super::answer::new_answer;
use super::compaction_run::CompactionRun;
use super::deadline::WaitDeadline;
use super::failure::unknown_failure;
use super::latest::{ConversationState, RunTask};
use super::resume::resume_open_step;
use super::settings::{RunAgent, RunModel, SettingsFailure};
use super::step::{AnswerEnd, StepOutcome};
use super::subtask::run_subtask;
use super::title;
use super::turn_shared::TurnShared;
use crate::model::{ModelError, ModelEvent};
use crate::tool::{ToolError, ToolReply};

/// How often the context may overflow in one turn before it is given up.
const MAX_OVERFLOWS: u32 = 2;
/// How many equal calls in a row count as a loop.
const LOOP_LENGTH: usize = 3;

/// What the thread of a turn receives.
pub(crate) enum RunSignal {
    /// A model said something, in the attempt of this number.
    Model(u32, Box<Result<ModelEvent, ModelError>>),
    /// A call has ended.
    CallEnded(PartId, Box<Result<ToolReply, ToolError>>),
    /// The turn is to end.
    Abort,
}

/// How a turn ended.
#[derive(Debug)]
pub(crate) enum TurnConclusion {
    /// The prompt has its answer.
    Completed,
    /// It was aborted.
    Aborted,
    /// It failed.
    Failed(Box<MessageFailure>),
    /// It is not this process's any more.
    Lost,
}

/// A turn that runs on this thread.
pub(crate) struct TurnRun {
    pub(crate) shared: Arc<TurnShared>,
    pub(crate) sender: Sender<RunSignal>,
    pub(crate) signals: Receiver<RunSignal>,
    pub(crate) is_aborted: bool,
    /// Counts requests to models, so that what an earlier one still says is recognised.
    pub(crate) attempts: u32,
    recent_calls: VecDeque<(String, Value)>,
    steps: u32,
    overflows: u32,
}

/// What runs a step: who answers, and with which model.
pub(crate) struct StepSetup {
    pub(crate) agent: RunAgent,
    pub(crate) model: RunModel,
}

impl TurnRun {
    pub(crate) fn new(shared: Arc<TurnShared>) -> Self {
        let (sender, signals) = channel();
        Self {
            shared,
            sender,
            signals,
            is_aborted: false,
            attempts: 0,
            recent_calls: VecDeque::new(),
            steps: 0,
            overflows: 0,
        }
    }

    /// Runs the turn to its end, which is stored when this returns.
    pub(crate) fn run(mut self) -> TurnConclusion {
        let over = Arc::new(AtomicBool::new(false));
        let watch = self.spawn_watch(over.clone());
        let conclusion = match self.iterate() {
            Ok(conclusion) => conclusion,
            Err(error) if error.is_turn_lost() && !self.is_aborted => TurnConclusion::Lost,
            Err(error) => TurnConclusion::Failed(Box::new(unknown_failure(&error.to_string()))),
        };
        let conclusion = self.store_end(conclusion);
        self.shared.engine().turns().watches().cancel(&over);
        if let Some(watch) = watch {
            // It ends by itself; what it still had to say is of no use.
            drop(watch.join());
        }
        conclusion
    }

    fn iterate(&mut self) -> Result<TurnConclusion> {
        let shared = self.shared.clone();
        let turns = shared.engine().turns();
        if shared.is_resumed
            && let Some(outcome) = resume_open_step(self)?
            && let Some(end) = self.conclude(outcome)
        {
            return Ok(end);
        }
        loop {
            self.drain_signals();
            if self.is_aborted {
                return Ok(TurnConclusion::Aborted);
            }
            turns.promote_steering_prompts(&shared.context(), &shared.turn)?;
            let seen = turns.contexts().model_context(&shared.context(), &shared.turn.session)?;
            let Some(state) = ConversationState::of(&seen) else {
                return Ok(failed(unknown_failure("the session has no prompt to answer")));
            };
            if state.task.is_none() && state.is_answered() {
                return Ok(TurnConclusion::Completed);
            }
            let outcome = match self.next_step(&seen, &state)? {
                Ok(outcome) => outcome,
                Err(failure) => return Ok(TurnConclusion::Failed(failure)),
            };
            if let Some(end) = self.conclude(outcome) {
                return Ok(end);
            }
        }
    }

    /// What the end of a step means for the turn; `None` if it goes on.
    fn conclude(&mut self, outcome: StepOutcome) -> Option<TurnConclusion> {
        match outcome {
            StepOutcome::Continue => None,
            StepOutcome::Stop => Some(TurnConclusion::Completed),
            StepOutcome::Aborted => Some(TurnConclusion::Aborted),
            StepOutcome::Failed(failure) => Some(TurnConclusion::Failed(failure)),
        }
    }

    fn next_step(
        &mut self,
        seen: &[ContextMessage],
        state: &ConversationState<'_>,
    ) -> Result<Result<StepOutcome, Box<MessageFailure>>> {
        let MessageBody::User(prompt) = &state.user.body else {
            return Ok(Err(Box::new(unknown_failure("the newest prompt is not a user message"))));
        };
        let setup = match self.setup(prompt) {
            Ok(setup) => setup,
            Err(failure) => return Ok(Err(failure)),
        };
        match &state.task {
            Some(RunTask::Compaction(request)) => {
                return CompactionRun::new(self).compact(request, &setup).map(Ok);
            }
            Some(RunTask::Subtask(request, subtask)) => {
                return run_subtask(self, (request, subtask), &setup).map(Ok);
            }
            None => {}
        }
        let limits = match self.shared.runner.settings.limits(&self.shared.directory) {
            Ok(limits) => limits,
            Err(failure) => return Ok(Err(failure)),
        };
        let overflows = state
            .finished
            .filter(|said| said.summary != Some(true))
            .is_some_and(|said| is_overflow(&said.tokens, setup.model.limits, &limits.compaction));
        if overflows {
            return self.request_compaction(prompt, false).map(Ok);
        }
        self.steps += 1;
        if self.steps == 1 {
            title::start(&self.shared, seen, &setup.model);
        }
        let step = self.steps;
        match self.answer((seen, state.user), &setup, step)? {
            AnswerEnd::Step(outcome) => Ok(Ok(outcome)),
            AnswerEnd::Overflowed(failure) => {
                self.overflows += 1;
                match limits.compaction.auto && self.overflows <= MAX_OVERFLOWS {
                    true => self.request_compaction(prompt, true).map(Ok),
                    false => Ok(Err(failure)),
                }
            }
        }
    }

    pub(crate) fn setup(&self, prompt: &UserMessage) -> Result<StepSetup, SettingsFailure> {
        let settings = &self.shared.runner.settings;
        let agent = settings.agent(&self.shared.directory, &prompt.agent)?;
        let model = settings.model(&self.shared.directory, &prompt.model, &agent)?;
        Ok(StepSetup { agent, model })
    }

    fn request_compaction(&mut self, prompt: &UserMessage, overflow: bool) -> Result<StepOutcome> {
        let request = CompactionRequest {
            agent: prompt.agent.clone(),
            model: prompt.model.clone(),
            auto: true,
            overflow,
        };
        let engine = self.shared.engine();
        engine.turns().compaction().request(&self.shared.context(), &self.shared.turn, &request)?;
        Ok(StepOutcome::Continue)
    }

    /// True if the model makes the same call for the third time in a row.
    pub(crate) fn is_repeated_call(&mut self, tool: &str, input: &Value) -> bool {
        let call = (tool.to_owned(), input.clone());
        let before = LOOP_LENGTH - 1;
        let is_repeated =
            self.recent_calls.len() == before && self.recent_calls.iter().all(|it| *it == call);
        self.recent_calls.push_back(call);
        if self.recent_calls.len() > before {
            self.recent_calls.pop_front();
        }
        is_repeated
    }

    /// Reads the signals that are there, for an abort; nothing else is due between two steps.
    pub(crate) fn drain_signals(&mut self) {
        while let Ok(signal) = self.signals.try_recv() {
            self.is_aborted |= matches!(signal, RunSignal::Abort);
        }
    }

    /// Waits for `limit`, or until the turn is aborted.
    pub(crate) fn pause(&mut self, limit: Duration) {
        let until = WaitDeadline::after(limit);
        while !self.is_aborted {
            match self.signals.recv_timeout(until.remaining()) {
                Ok(signal) => self.is_aborted |= matches!(signal, RunSignal::Abort),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn spawn_watch(&self, over: Arc<AtomicBool>) -> Option<std::thread::JoinHandle<()>> {
        let (shared, sender) = (self.shared.clone(), self.sender.clone());
        let watch = move || {
            let (ctx, watches) = (shared.context(), shared.engine().turns().watches());
            let mut report = |signal| match signal {
                TurnSignal::AbortRequested => drop(sender.send(RunSignal::Abort)),
                TurnSignal::RequestResolved => shared.answers.notify(),
                TurnSignal::PromptAdmitted => {}
            };
            if watches.watch(&ctx, &shared.turn, &over, &mut report).is_err() {
                // A turn that cannot be aborted must not go on.
                report(TurnSignal::AbortRequested);
            }
        };
        std::thread::Builder::new().name("turn-watch".to_owned()).spawn(watch).ok()
    }

    /// Stores how the turn ended. A turn whose answer is complete, or has none yet, gets an answer that says why.
    fn store_end(&self, conclusion: TurnConclusion) -> TurnConclusion {
        let (outcome, failure) = match &conclusion {
            TurnConclusion::Completed => (TurnOutcome::Completed, None),
            TurnConclusion::Aborted if self.shared.runner.is_stopping() => {
                let kind = MessageFailureKind::MessageAbortedError;
                let words = "The process that ran this turn was stopped";
                (TurnOutcome::Interrupted, Some(MessageFailure::new(kind, words)))
            }
            TurnConclusion::Aborted => {
                let kind = MessageFailureKind::MessageAbortedError;
                (TurnOutcome::Aborted, Some(MessageFailure::new(kind, "Aborted")))
            }
            TurnConclusion::Failed(failure) => (TurnOutcome::Failed, Some((**failure).clone())),
            TurnConclusion::Lost => return conclusion,
        };
        let (engine, ctx, turn) = (self.shared.engine(), self.shared.context(), &self.shared.turn);
        let stored = match self.needs_answer(outcome) {
            Ok(Some(answer)) => {
                engine.turns().end_unanswered(&ctx, turn, answer, (outcome, failure))
            }
            Ok(None) => engine.turns().end(&ctx, turn, outcome, failure).map(drop),
            Err(error) => Err(error),
        };
        if outcome != TurnOutcome::Completed {
            // What its open calls changed is found out now, not at the next request. A failure is no loss:
            // the next recovery finds it out.
            drop(engine.maintenance().recover_all(&ctx));
        }
        match stored {
            Ok(()) => conclusion,
            Err(error) if error.is_turn_lost() => TurnConclusion::Lost,
            Err(error) => failed(unknown_failure(&error.to_string())),
        }
    }

    /// Returns an empty answer for a turn that ended early, if none is open that can show why.
    fn needs_answer(&self, outcome: TurnOutcome) -> Result<Option<Message>> {
        if outcome == TurnOutcome::Completed {
            return Ok(None);
        }
        let (engine, ctx) = (self.shared.engine(), self.shared.context());
        let seen = engine.turns().contexts().model_context(&ctx, &self.shared.turn.session)?;
        let Some(state) = ConversationState::of(&seen) else { return Ok(None) };
        if state.open_answer().is_some() {
            return Ok(None);
        }
        let MessageBody::User(prompt) = &state.user.body else { return Ok(None) };
        new_answer(&self.shared, state.user, &prompt.agent, &prompt.model).map(Some)
    }
}

pub(crate) fn failed(failure: MessageFailure) -> TurnConclusion {
    TurnConclusion::Failed(Box::new(failure))
}
