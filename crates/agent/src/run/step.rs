//! One step: a request to a model, its answer, and the calls in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Number, Value};
use turnstone_core::context::ContextMessage;
use turnstone_core::id::{MessageId, PartId};
use turnstone_core::model::{
    ExtraFields, Message, MessageFailure, MessageFailureKind, Part, PartBody, SessionStatus,
    TokenCounts, ToolState, ToolTime,
};
use turnstone_engine::{ModelStep, Result, StepEnd};

use super::answer::new_answer;
use super::answer_writer::{AnswerWriter, RequestedCall, coalesce_deltas, parse_arguments};
use super::call_schedule::{CallOutcome, CallSchedule, ReadyCall};
use super::deadline::WaitDeadline;
use super::failure::model_failure;
use super::request::{RequestInput, STRUCTURED_TOOL, build_request, output_schema};
use super::retry::{MAX_RETRIES, retry_delay};
use super::turn_run::{RunSignal, StepSetup, TurnRun};
use super::turn_shared::TurnShared;
use super::usage::{step_usage, to_step_usage};
use crate::model::{
    FinishReason, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelUsage,
};
use crate::tool::{Tool, ToolError, ToolReply};

/// How long calls may take to end after an abort.
const ABORT_GRACE: Duration = Duration::from_secs(5);
/// The most characters of a broken call that the model reads back.
const MAX_QUOTED: usize = 500;
/// What a model reads after it gave its structured answer.
const STRUCTURED_REPLY: &str = "The structured answer was recorded.";
/// The finish of an answer that did not fit the model.
const FINISH_ERROR: &str = "error";

/// How a step ended.
#[derive(Debug)]
pub(crate) enum StepOutcome {
    /// The model is to be asked again, or something else is to be done first.
    Continue,
    /// The turn is over.
    Stop,
    /// The turn was aborted.
    Aborted,
    /// The turn failed.
    Failed(Box<MessageFailure>),
}

/// How an answer ended.
#[derive(Debug)]
pub(crate) enum AnswerEnd {
    /// As any step.
    Step(StepOutcome),
    /// The conversation does not fit the model.
    Overflowed(Box<MessageFailure>),
}

/// How one request ended.
enum AttemptEnd {
    Finished { reason: FinishReason, cost: Number, tokens: TokenCounts },
    Failed(ModelError),
    Aborted,
}

/// A step under way.
pub(crate) struct StepRun<'r> {
    pub(crate) run: &'r mut TurnRun,
    pub(crate) shared: &'r Arc<TurnShared>,
    pub(crate) setup: &'r StepSetup,
    pub(crate) step: ModelStep,
    pub(crate) tools: BTreeMap<String, Arc<dyn Tool>>,
    pub(crate) schedule: CallSchedule,
    /// The prompt wants an answer of a given shape.
    pub(crate) wants_structured: bool,
    pub(crate) structured: Option<Value>,
    pub(crate) calls: usize,
    pub(crate) is_refused: bool,
}

impl TurnRun {
    /// Asks the model to answer a prompt, and runs the calls of the answer.
    ///
    /// # Errors
    ///
    /// The engine refused; the step is still open and ends with its turn.
    pub(crate) fn answer(
        &mut self,
        (seen, prompt): (&[ContextMessage], &Message),
        setup: &StepSetup,
        number: u32,
    ) -> Result<AnswerEnd> {
        let shared = self.shared.clone();
        let answer = new_answer(&shared, prompt, &setup.agent.name, &setup.model.name)?;
        let engine = shared.engine();
        let step = engine.turns().steps().begin(&shared.context(), &shared.turn, answer.clone())?;
        let input = RequestInput { shared: &shared, setup, prompt, step: number };
        let tools = input.tools()?;
        let scope = input.scope(&answer.id);
        let schedule = CallSchedule::new(shared.clone(), scope, self.sender.clone());
        let step = StepRun {
            run: self,
            shared: &shared,
            setup,
            step,
            tools,
            schedule,
            wants_structured: output_schema(prompt).is_some(),
            structured: None,
            calls: 0,
            is_refused: false,
        };
        step.ask(seen, &input)
    }
}

impl TurnRun {
    /// Removes what a failed request wrote into an answer, and shows when it is repeated.
    pub(crate) fn show_retry(
        &self,
        answer: &MessageId,
        error: &ModelError,
        (tries, delay): (u32, Duration),
    ) -> Result<()> {
        let ctx = self.shared.context();
        let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
        let status = SessionStatus::Retry {
            attempt: Number::from(tries),
            message: error.message.clone(),
            next: Number::from(ctx.now.plus(millis).0),
            action: None,
        };
        let turns = self.shared.engine().turns();
        turns.clear_failed_attempt(&ctx, &self.shared.turn, answer, &status).map(drop)
    }
}

impl StepRun<'_> {
    fn ask(mut self, seen: &[ContextMessage], input: &RequestInput<'_>) -> Result<AnswerEnd> {
        let (shared, mut tries) = (self.shared, 0);
        let engine = shared.engine();
        let mut writer = AnswerWriter::new(engine, &shared.turn, self.step.message.clone());
        let mut request = build_request(input, seen, &self.tools);
        loop {
            tries += 1;
            match self.attempt(&mut writer, &request)? {
                AttemptEnd::Finished { reason, cost, tokens } => {
                    return self.finish(reason, cost, tokens).map(AnswerEnd::Step);
                }
                AttemptEnd::Aborted => return Ok(AnswerEnd::Step(StepOutcome::Aborted)),
                AttemptEnd::Failed(error) => {
                    let failure = Box::new(model_failure(&error, &self.setup.model.name.provider));
                    if error.kind == ModelErrorKind::ContextOverflow {
                        self.end_step(FINISH_ERROR, Number::from(0), TokenCounts::default())?;
                        return Ok(AnswerEnd::Overflowed(failure));
                    }
                    if error.kind != ModelErrorKind::Retryable || tries > MAX_RETRIES {
                        return Ok(AnswerEnd::Step(StepOutcome::Failed(failure)));
                    }
                    if !self.wait_for_retry(&error, tries)? {
                        return Ok(AnswerEnd::Step(StepOutcome::Aborted));
                    }
                    writer.discard();
                }
            }
            // The calls that ran before the answer broke off are in the context by now.
            let (ctx, session) = (shared.context(), &shared.turn.session);
            let seen = engine.turns().contexts().model_context(&ctx, session)?;
            request = build_request(input, &seen, &self.tools);
        }
    }

    /// Shows that the request is repeated, and waits; false if the turn was aborted meanwhile.
    fn wait_for_retry(&mut self, error: &ModelError, tries: u32) -> Result<bool> {
        let delay = retry_delay(error, tries, self.shared.runner.jitter());
        self.run.show_retry(&self.step.message, error, (tries, delay))?;
        self.run.pause(delay);
        if self.run.is_aborted {
            return Ok(false);
        }
        let (shared, steps) = (self.shared, self.shared.engine().turns().steps());
        steps.show_status(&shared.context(), &shared.turn, SessionStatus::Busy)?;
        Ok(true)
    }

    /// Sends one request and takes the answer up, calls included.
    fn attempt(
        &mut self,
        writer: &mut AnswerWriter<'_>,
        request: &ModelRequest,
    ) -> Result<AttemptEnd> {
        let shared = self.shared;
        self.run.attempts += 1;
        let number = self.run.attempts;
        shared.gate.open_stream(&shared.context())?;
        let sender = self.run.sender.clone();
        let sink = Box::new(move |event| {
            // The receiver is gone only if the turn is over.
            let _sent = sender.send(RunSignal::Model(number, Box::new(event)));
        });
        let mut stream = Some(self.setup.model.provider.start(request.clone(), sink));
        let (mut end, mut failure) = (None, None);
        while stream.is_some() || !self.schedule.is_idle() {
            let batch = self.receive(number);
            for event in coalesce_deltas(batch.events) {
                if let Some(call) = writer.write(&shared.context(), event)? {
                    self.take_call(call)?;
                }
            }
            self.end_calls(batch.ended)?;
            if self.run.is_aborted {
                drop(stream.take());
                self.end_running_calls()?;
                writer.seal_all(&shared.context())?;
                return Ok(AttemptEnd::Aborted);
            }
            let is_over = batch.end.is_some() || batch.failure.is_some();
            failure = failure.or(batch.failure);
            if is_over && stream.take().is_some() {
                writer.seal_all(&shared.context())?;
                end = self.end_stream(batch.end, (request, writer.written))?;
            }
            if failure.is_some() {
                // What the model wanted before it broke off may be half of it.
                self.schedule.drop_queued();
            }
            self.schedule.start_ready()?;
        }
        Ok(match (failure, end) {
            (Some(error), _) => AttemptEnd::Failed(error),
            (None, Some((reason, cost, tokens))) => AttemptEnd::Finished { reason, cost, tokens },
            (None, None) => AttemptEnd::Failed(ModelError::new(
                ModelErrorKind::Retryable,
                "the model ended its answer without saying so".to_owned(),
            )),
        })
    }

    /// Runs the calls of an answer that is complete; false if the turn was aborted.
    pub(crate) fn run_queued_calls(&mut self) -> Result<bool> {
        self.schedule.start_ready()?;
        while !self.schedule.is_idle() {
            let batch = self.receive(0);
            self.end_calls(batch.ended)?;
            if self.run.is_aborted {
                self.end_running_calls()?;
                return Ok(false);
            }
            self.schedule.start_ready()?;
        }
        Ok(true)
    }

    /// The model has said everything: what it used is stored before its calls end.
    fn end_stream(
        &self,
        end: Option<(FinishReason, Option<ModelUsage>)>,
        sizes: (&ModelRequest, usize),
    ) -> Result<Option<(FinishReason, Number, TokenCounts)>> {
        let (shared, ctx) = (self.shared, self.shared.context());
        let Some((reason, usage)) = end else {
            shared.gate.close_stream(&ctx)?;
            return Ok(None);
        };
        let (cost, tokens) = step_usage(usage, sizes, &self.setup.model.cost);
        let usage = to_step_usage(&cost, &tokens);
        let steps = shared.engine().turns().steps();
        steps.report_usage(&ctx, &shared.turn, &self.step.message, usage)?;
        shared.gate.close_stream(&ctx)?;
        Ok(Some((reason, cost, tokens)))
    }

    /// Waits for what comes next, and takes everything that is there by then.
    fn receive(&mut self, number: u32) -> SignalBatch {
        let mut batch = SignalBatch::default();
        // This run holds a sender, so the channel never closes.
        let mut next = self.run.signals.recv().ok();
        while let Some(signal) = next {
            match signal {
                RunSignal::Model(attempt, event) if attempt == number => match *event {
                    Ok(ModelEvent::Finished { reason, usage }) => batch.end = Some((reason, usage)),
                    Ok(event) => batch.events.push(event),
                    Err(error) => batch.failure = Some(error),
                },
                // An earlier request that was given up.
                RunSignal::Model(..) => {}
                RunSignal::CallEnded(part, ended) => batch.ended.push((part, *ended)),
                RunSignal::Abort => self.run.is_aborted = true,
            }
            next = self.run.signals.try_recv().ok();
        }
        batch
    }

    fn end_calls(&mut self, ended: Vec<EndedCall>) -> Result<()> {
        for (part, result) in ended {
            match self.schedule.finish(&part, result)? {
                Some(CallOutcome::Refused) => self.is_refused = true,
                Some(CallOutcome::Aborted) => self.run.is_aborted = true,
                Some(CallOutcome::Continue) | None => {}
            }
        }
        Ok(())
    }

    /// Ends the running calls: the turn was aborted.
    fn end_running_calls(&mut self) -> Result<()> {
        self.schedule.abort();
        let until = WaitDeadline::after(ABORT_GRACE);
        while self.schedule.is_running() {
            match self.run.signals.recv_timeout(until.remaining()) {
                Ok(RunSignal::CallEnded(part, ended)) => self.end_calls(vec![(part, *ended)])?,
                Ok(RunSignal::Model(..) | RunSignal::Abort) => {}
                // A call that does not end is closed with its turn; recovery finds out what it changed.
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn take_call(&mut self, requested: RequestedCall) -> Result<()> {
        let RequestedCall { mut part, call, tool, arguments } = requested;
        self.calls += 1;
        let input = match parse_arguments(&arguments) {
            Ok(input) => input,
            Err(reason) => {
                let quoted: String = arguments.chars().take(MAX_QUOTED).collect();
                let text = format!("The call of {tool} cannot run: {reason}. You wrote: {quoted}");
                return self.reject_call(part, text);
            }
        };
        if self.wants_structured && tool == STRUCTURED_TOOL {
            return self.take_structured(part, input);
        }
        let lower = tool.to_lowercase();
        let Some(found) = self.tools.get(&tool).or_else(|| self.tools.get(&lower)).cloned() else {
            let names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
            let text = format!("There is no tool {tool}. Available tools: {}", names.join(", "));
            return self.reject_call(part, text);
        };
        let name = found.schema().name;
        if let PartBody::Tool(body) = &mut part.body {
            body.tool.clone_from(&name);
        }
        let is_repeated = self.run.is_repeated_call(&name, &input);
        self.schedule.add(ReadyCall { part, call, tool: found, input, is_repeated });
        Ok(())
    }

    /// Answers a call that cannot run; the model reads why.
    pub(crate) fn reject_call(&self, mut part: Part, error: String) -> Result<()> {
        let ctx = self.shared.context();
        if let PartBody::Tool(body) = &mut part.body {
            body.state = ToolState::Error {
                input: Value::Object(Map::new()),
                error,
                metadata: None,
                time: instant(ctx.now.0),
                extra: ExtraFields::new(),
            };
        }
        self.shared.engine().turns().steps().put_part(&ctx, &self.shared.turn, part)
    }

    fn take_structured(&mut self, mut part: Part, input: Value) -> Result<()> {
        let (ctx, turn) = (self.shared.context(), &self.shared.turn);
        let steps = self.shared.engine().turns().steps();
        let states = [
            ToolState::Running {
                input: input.clone(),
                title: None,
                metadata: None,
                time: ToolTime { end: None, ..instant(ctx.now.0) },
                extra: ExtraFields::new(),
            },
            ToolState::Completed {
                input: input.clone(),
                output: STRUCTURED_REPLY.to_owned(),
                title: String::new(),
                metadata: Value::Object(Map::new()),
                time: instant(ctx.now.0),
                attachments: None,
                extra: ExtraFields::new(),
            },
        ];
        for state in states {
            if let PartBody::Tool(body) = &mut part.body {
                body.state = state;
            }
            steps.put_part(&ctx, turn, part.clone())?;
        }
        self.structured = Some(input);
        Ok(())
    }

    /// Decides what a complete answer means. A failed one stays open: the end of its turn closes it.
    pub(crate) fn finish(
        mut self,
        reason: FinishReason,
        cost: Number,
        tokens: TokenCounts,
    ) -> Result<StepOutcome> {
        if reason == FinishReason::ContentFilter {
            let kind = MessageFailureKind::ContentFilterError;
            let failure = MessageFailure::new(kind, "The provider withheld the answer");
            return Ok(StepOutcome::Failed(Box::new(failure)));
        }
        if self.wants_structured && self.structured.is_none() && self.calls == 0 {
            let kind = MessageFailureKind::StructuredOutputError;
            let mut failure =
                MessageFailure::new(kind, "The model did not produce structured output");
            failure.data["retries"] = Value::from(0);
            return Ok(StepOutcome::Failed(Box::new(failure)));
        }
        // Some providers report a stop although the model called tools.
        let stopped = matches!(reason, FinishReason::Stop | FinishReason::Unknown);
        let finish = if stopped && self.calls > 0 { FinishReason::ToolCalls } else { reason };
        self.end_step(finish.as_str(), cost, tokens)?;
        // Whether the prompt has its answer is decided by what is stored, prompts that came in included.
        let is_over = self.structured.is_some() || self.stops_after_refusal();
        Ok(if is_over { StepOutcome::Stop } else { StepOutcome::Continue })
    }

    fn stops_after_refusal(&self) -> bool {
        let limits = self.shared.runner.settings.limits(&self.shared.directory);
        self.is_refused && !limits.is_ok_and(|limits| limits.continues_after_refusal)
    }

    fn end_step(&mut self, reason: &str, cost: Number, tokens: TokenCounts) -> Result<()> {
        let structured = self.structured.clone();
        let end = StepEnd { reason: reason.to_owned(), cost, tokens, structured };
        let (shared, steps) = (self.shared, self.shared.engine().turns().steps());
        steps.end(&shared.context(), &shared.turn, &self.step, &end).map(drop)
    }
}

type EndedCall = (PartId, Result<ToolReply, ToolError>);

/// What came since the loop looked last.
#[derive(Default)]
struct SignalBatch {
    events: Vec<ModelEvent>,
    ended: Vec<EndedCall>,
    end: Option<(FinishReason, Option<ModelUsage>)>,
    failure: Option<ModelError>,
}

fn instant(now: i64) -> ToolTime {
    let now = Number::from(now);
    ToolTime { start: now.clone(), end: Some(now), compacted: None, extra: ExtraFields::new() }
}
