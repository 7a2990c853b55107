//! Compaction: the compaction agent writes a summary that takes the place of older messages.

use std::fmt::Write as _;

use serde_json::{Map, Number};
use turnstone_core::context::{ModelMessage, UserContent};
use turnstone_core::model::{Message, MessageBody, MessageFailure, UserMessage};
use turnstone_engine::{CompactionPlan, CompactionSummary, Result, StepEnd};

use super::answer::new_answer;
use super::answer_writer::{AnswerWriter, coalesce_deltas};
use super::failure::model_failure;
use super::request::target_of;
use super::retry::{MAX_RETRIES, retry_delay};
use super::settings::RunModel;
use super::step::StepOutcome;
use super::turn_run::{RunSignal, StepSetup, TurnRun};
use super::usage::step_usage;
use crate::model::{ModelErrorKind, ModelEvent, ModelRequest, ToolChoice};

/// The agent that writes summaries.
const COMPACTION_AGENT: &str = "compaction";
const DEFAULT_PROMPT: &str = "\
You summarise the work of a coding agent so that it can continue without the conversation. You use no tools and answer \
nothing that the conversation asks.";
const TEMPLATE: &str = "\
Write the summary of the conversation above under these headings; leave out a heading that would be empty:
## Goal
What the person wants, in their own terms, with every constraint they stated.
## Done
What was done, with paths of files, names of functions and results of commands that matter later.
## State
What works, what fails and how, what was decided and why.
## Next
The steps that are left, the next one first.
Keep exact names, paths, numbers and error messages. Do not invent anything.";
/// The longest summary that is asked for.
const MAX_SUMMARY_TOKENS: u64 = 8_000;

/// A compaction in a turn.
pub(crate) struct CompactionRun<'r> {
    run: &'r mut TurnRun,
}

impl<'r> CompactionRun<'r> {
    pub(crate) const fn new(run: &'r mut TurnRun) -> Self {
        Self { run }
    }

    /// Compacts the context as `request` asks.
    ///
    /// # Errors
    ///
    /// The engine refused.
    pub(crate) fn compact(&mut self, request: &Message, setup: &StepSetup) -> Result<StepOutcome> {
        let MessageBody::User(asked) = &request.body else { return Ok(StepOutcome::Stop) };
        let (agent_prompt, model) = self.compaction_model(asked, setup);
        let shared = self.run.shared.clone();
        let (engine, ctx) = (shared.engine(), shared.context());
        let limits = match shared.runner.settings.limits(&shared.directory) {
            Ok(limits) => limits,
            Err(failure) => return Ok(StepOutcome::Failed(failure)),
        };
        let compaction = engine.turns().compaction();
        let budget = (model.limits, &limits.compaction);
        let plan =
            compaction.plan(&ctx, &shared.turn.session, &request.id, &target_of(&model), budget)?;
        let mut answer = new_answer(&shared, request, COMPACTION_AGENT, &model.name)?;
        if let MessageBody::Assistant(said) = &mut answer.body {
            said.summary = Some(true);
        }
        let step = engine.turns().steps().begin(&ctx, &shared.turn, answer.clone())?;
        let request = summary_request(self.run, agent_prompt, &model, &plan);
        let written = match self.write_summary(&request, &model, &answer)? {
            SummaryEnd::Written(written) => written,
            SummaryEnd::Aborted => return Ok(StepOutcome::Aborted),
            SummaryEnd::Failed(failure) => {
                compaction.fail(
                    &shared.context(),
                    &shared.turn,
                    &plan,
                    (&answer, (*failure).clone()),
                )?;
                return Ok(StepOutcome::Failed(failure));
            }
        };
        let ctx = shared.context();
        let end = StepEnd {
            reason: "stop".to_owned(),
            cost: written.cost,
            tokens: written.tokens,
            structured: None,
        };
        engine.turns().steps().end(&ctx, &shared.turn, &step, &end)?;
        let session = &shared.turn.session;
        let stored = engine.store().read(&ctx, |r| r.messages().get(session, &answer.id))?;
        let summary = CompactionSummary { message: stored.message, text: written.text };
        compaction.finish(&ctx, &shared.turn, &plan, &summary)?;
        Ok(match plan.continues {
            true => StepOutcome::Continue,
            false => StepOutcome::Stop,
        })
    }

    /// Returns prompt and model of the compaction agent; without a model of its own, that of the prompt.
    fn compaction_model(
        &self,
        asked: &UserMessage,
        setup: &StepSetup,
    ) -> (Option<String>, RunModel) {
        let settings = &self.run.shared.runner.settings;
        let directory = &self.run.shared.directory;
        let Ok(agent) = settings.agent(directory, COMPACTION_AGENT) else {
            return (None, setup.model.clone());
        };
        let mut name = asked.model.clone();
        if let Some((provider, model)) = &agent.model {
            (name.provider, name.model) = (provider.clone(), model.clone());
            name.variant.clone_from(&agent.variant);
        }
        let model =
            settings.model(directory, &name, &agent).unwrap_or_else(|_| setup.model.clone());
        (agent.prompt, model)
    }

    /// Streams a summary into its message.
    fn write_summary(
        &mut self,
        request: &ModelRequest,
        model: &RunModel,
        answer: &Message,
    ) -> Result<SummaryEnd> {
        let shared = self.run.shared.clone();
        let mut writer = AnswerWriter::new(shared.engine(), &shared.turn, answer.id.clone());
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.stream_summary(&mut writer, request, model)? {
                Ok(Some(written)) => return Ok(SummaryEnd::Written(Box::new(written))),
                Ok(None) => return Ok(SummaryEnd::Aborted),
                Err(error) => error,
            };
            if error.kind != ModelErrorKind::Retryable || tries > MAX_RETRIES {
                let failure = model_failure(&error, &model.name.provider);
                return Ok(SummaryEnd::Failed(Box::new(failure)));
            }
            let delay = retry_delay(&error, tries, shared.runner.jitter());
            self.run.show_retry(&answer.id, &error, (tries, delay))?;
            writer.discard();
            self.run.pause(delay);
            if self.run.is_aborted {
                return Ok(SummaryEnd::Aborted);
            }
        }
    }

    /// One request for a summary; `Ok(None)` if the turn was aborted.
    fn stream_summary(
        &mut self,
        writer: &mut AnswerWriter<'_>,
        request: &ModelRequest,
        model: &RunModel,
    ) -> Result<Result<Option<WrittenSummary>, crate::model::ModelError>> {
        let shared = self.run.shared.clone();
        self.run.attempts += 1;
        let (number, sender) = (self.run.attempts, self.run.sender.clone());
        let sink = Box::new(move |event| {
            // The receiver is gone only if the turn is over.
            let _sent = sender.send(RunSignal::Model(number, Box::new(event)));
        });
        let _stream = model.provider.start(request.clone(), sink);
        loop {
            let (mut events, mut end) = (Vec::new(), None);
            let mut next = self.run.signals.recv().ok();
            while let Some(signal) = next {
                match signal {
                    RunSignal::Model(attempt, event) if attempt == number => match *event {
                        Ok(ModelEvent::Finished { usage, .. }) => end = Some(Ok(usage)),
                        Ok(event) => events.push(event),
                        Err(error) => end = Some(Err(error)),
                    },
                    RunSignal::Model(..) | RunSignal::CallEnded(..) => {}
                    RunSignal::Abort => self.run.is_aborted = true,
                }
                next = self.run.signals.try_recv().ok();
            }
            for event in coalesce_deltas(events) {
                // A summary calls no tools.
                if !is_tool_event(&event) {
                    writer.write(&shared.context(), event)?;
                }
            }
            if self.run.is_aborted {
                writer.seal_all(&shared.context())?;
                return Ok(Ok(None));
            }
            match end {
                None => {}
                Some(Err(error)) => {
                    writer.seal_all(&shared.context())?;
                    return Ok(Err(error));
                }
                Some(Ok(usage)) => {
                    writer.seal_all(&shared.context())?;
                    let (cost, tokens) = step_usage(usage, (request, writer.written), &model.cost);
                    let text = std::mem::take(&mut writer.text);
                    return Ok(Ok(Some(WrittenSummary { text, cost, tokens })));
                }
            }
        }
    }
}

enum SummaryEnd {
    Written(Box<WrittenSummary>),
    Aborted,
    Failed(Box<MessageFailure>),
}

struct WrittenSummary {
    text: String,
    cost: Number,
    tokens: turnstone_core::model::TokenCounts,
}

const fn is_tool_event(event: &ModelEvent) -> bool {
    matches!(
        event,
        ModelEvent::ToolInputStarted { .. }
            | ModelEvent::ToolInputDelta { .. }
            | ModelEvent::ToolCalled { .. }
    )
}

/// The whole head of the conversation as one text, and what to do with it.
fn summary_request(
    run: &TurnRun,
    prompt: Option<String>,
    model: &RunModel,
    plan: &CompactionPlan,
) -> ModelRequest {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(previous) = &plan.previous {
        let _written = write!(text, "<previous-summary>\n{previous}\n</previous-summary>\n\n");
    }
    let _written =
        write!(text, "<conversation>\n{}\n</conversation>\n\n{TEMPLATE}", plan.transcript());
    if plan.previous.is_some() {
        text.push_str("\nCarry over everything of the previous summary that still holds.");
    }
    let limit = match model.limits.output {
        0 => MAX_SUMMARY_TOKENS,
        known => known.min(MAX_SUMMARY_TOKENS),
    };
    ModelRequest {
        model: model.wire_name.clone(),
        system: vec![prompt.unwrap_or_else(|| DEFAULT_PROMPT.to_owned())],
        messages: vec![ModelMessage::User(vec![UserContent::Text { text }])],
        tools: Vec::new(),
        tool_choice: ToolChoice::None,
        max_output_tokens: Some(limit),
        temperature: model.temperature,
        top_p: model.top_p,
        options: Map::clone(&model.options),
        session: run.shared.turn.session.to_string(),
        parent: run.shared.parent.as_ref().map(ToString::to_string),
    }
}
