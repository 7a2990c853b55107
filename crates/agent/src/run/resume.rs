//! A turn that waited for a person when its process ended, and goes on in this one (R28).

use turnstone_core::context::ContextMessage;
use turnstone_core::model::{Message, MessageBody, Part, PartBody, ToolPart, ToolState};
use turnstone_engine::Result;

use super::call_schedule::{CallSchedule, ReadyCall};
use super::latest::ConversationState;
use super::request::{RequestInput, output_schema};
use super::step::{StepOutcome, StepRun};
use super::turn_run::{StepSetup, TurnRun};
use crate::model::FinishReason;

/// Runs the calls again that the process before left open: each had asked a person and done nothing yet. They
/// find the answers to what they asked. `None` if no answer is open.
///
/// # Errors
///
/// The engine refused.
pub(crate) fn resume_open_step(run: &mut TurnRun) -> Result<Option<StepOutcome>> {
    let shared = run.shared.clone();
    let (engine, session) = (shared.engine(), &shared.turn.session);
    let seen = engine.turns().contexts().model_context(&shared.context(), session)?;
    let Some((answer, parts, prompt)) = find_open_answer(&seen) else { return Ok(None) };
    let MessageBody::User(user) = &prompt.body else { return Ok(None) };
    let setup = match run.setup(user) {
        Ok(setup) => setup,
        Err(failure) => return Ok(Some(StepOutcome::Failed(failure))),
    };
    rerun(run, (answer, parts, prompt), &setup).map(Some)
}

fn rerun(
    run: &mut TurnRun,
    (answer, parts, prompt): (&Message, &[Part], &Message),
    setup: &StepSetup,
) -> Result<StepOutcome> {
    let shared = run.shared.clone();
    let (steps, ctx) = (shared.engine().turns().steps(), shared.context());
    let step = steps.find(&ctx, &shared.turn, &answer.id)?;
    let (cost, tokens) = steps.reported_usage(&ctx, &shared.turn, &answer.id)?;
    let input = RequestInput { shared: &shared, setup, prompt, step: 1 };
    let scope = input.scope(&answer.id);
    let mut step = StepRun {
        tools: input.tools()?,
        schedule: CallSchedule::new(shared.clone(), scope, run.sender.clone()),
        run,
        shared: &shared,
        setup,
        step,
        wants_structured: output_schema(prompt).is_some(),
        structured: None,
        calls: 0,
        is_refused: false,
    };
    for part in parts {
        let PartBody::Tool(tool) = &part.body else { continue };
        step.calls += 1;
        if let Some(input) = open_input(tool) {
            let (call, tool) = (tool.call.clone(), step.tools.get(&tool.tool).cloned());
            let Some(tool) = tool else {
                let text = "The tool of this call is not available any more.";
                step.reject_call(part.clone(), text.to_owned())?;
                continue;
            };
            let (part, input) = (part.clone(), input.clone());
            step.schedule.add(ReadyCall { part, call, tool, input, is_repeated: false });
        }
    }
    if !step.run_queued_calls()? {
        return Ok(StepOutcome::Aborted);
    }
    step.finish(FinishReason::ToolCalls, cost, tokens)
}

/// The newest answer if it is not complete, and the prompt that it answers.
fn find_open_answer(seen: &[ContextMessage]) -> Option<(&Message, &[Part], &Message)> {
    let state = ConversationState::of(seen)?;
    let (answer, parts) = state.open_answer()?;
    let MessageBody::Assistant(said) = &answer.body else { return None };
    let (prompt, _) = seen.iter().find(|(message, _)| message.id == said.parent)?;
    Some((answer, parts, prompt))
}

/// The input of a call that has not ended.
const fn open_input(tool: &ToolPart) -> Option<&serde_json::Value> {
    match &tool.state {
        ToolState::Pending { input, .. } | ToolState::Running { input, .. } => Some(input),
        ToolState::Completed { .. } | ToolState::Error { .. } => None,
    }
}
