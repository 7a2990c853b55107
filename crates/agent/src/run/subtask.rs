//! Subtasks: a command that a person runs as a subagent, without a model deciding to.

use serde_json::{Map, Value, json};
use turnstone_core::model::{
    ExtraFields, Message, Part, PartBody, SubtaskPart, TokenCounts, ToolPart, ToolState,
};
use turnstone_engine::{Result, StepEnd};

use super::answer::new_answer;
use super::call_schedule::{CallSchedule, ReadyCall};
use super::failure::unknown_failure;
use super::request::RequestInput;
use super::step::StepOutcome;
use super::turn_run::{RunSignal, StepSetup, TurnRun};
use super::turn_shared::TurnShared;

/// The tool that runs subagents.
const TASK_TOOL: &str = "task";

/// Runs a subtask as a call of the `task` tool in an answer of its own.
///
/// # Errors
///
/// The engine refused.
pub(crate) fn run_subtask(
    run: &mut TurnRun,
    (request, subtask): (&Message, &SubtaskPart),
    setup: &StepSetup,
) -> Result<StepOutcome> {
    let shared = run.shared.clone();
    let (engine, turn) = (shared.engine(), &shared.turn);
    let answer = new_answer(&shared, request, &subtask.agent, &setup.model.name)?;
    let step = engine.turns().steps().begin(&shared.context(), turn, answer.clone())?;
    let tools = shared.runner.settings.tools(&shared.directory);
    let Some(tool) = tools.into_iter().find(|tool| tool.schema().name == TASK_TOOL) else {
        let failure = unknown_failure("there is no tool that runs subagents");
        return Ok(StepOutcome::Failed(Box::new(failure)));
    };
    let input = json!({
        "description": subtask.description, "prompt": subtask.prompt,
        "subagent_type": subtask.agent, "command": subtask.command,
    });
    let call = format!("subtask_{}", answer.id);
    let part = task_part(&shared, &answer, &call)?;
    let scope = RequestInput { shared: &shared, setup, prompt: request, step: 1 }.scope(&answer.id);
    let mut schedule = CallSchedule::new(shared.clone(), scope, run.sender.clone());
    schedule.add(ReadyCall { part, call, tool, input, is_repeated: false });
    schedule.start_ready()?;
    while schedule.is_running() {
        match run.signals.recv() {
            Ok(RunSignal::CallEnded(part, ended)) => drop(schedule.finish(&part, *ended)?),
            Ok(RunSignal::Abort) => {
                run.is_aborted = true;
                schedule.abort();
            }
            // No model is asked here, and the run holds a sender.
            Ok(RunSignal::Model(..)) | Err(_) => {}
        }
    }
    if run.is_aborted {
        return Ok(StepOutcome::Aborted);
    }
    let (cost, tokens) = (0.into(), TokenCounts::default());
    let end = StepEnd { reason: "tool-calls".to_owned(), cost, tokens, structured: None };
    engine.turns().steps().end(&shared.context(), turn, &step, &end)?;
    Ok(StepOutcome::Continue)
}

/// The call of a subtask before it runs.
fn task_part(shared: &TurnShared, answer: &Message, call: &str) -> Result<Part> {
    let state = ToolState::Pending {
        input: Value::Object(Map::new()),
        raw: String::new(),
        extra: ExtraFields::new(),
    };
    let body = ToolPart {
        call: call.to_owned(),
        tool: TASK_TOOL.to_owned(),
        state,
        metadata: None,
        extra: ExtraFields::new(),
    };
    Ok(Part {
        id: shared.engine().turns().new_part_id(&shared.context())?,
        session: answer.session.clone(),
        message: answer.id.clone(),
        body: PartBody::Tool(Box::new(body)),
    })
}
