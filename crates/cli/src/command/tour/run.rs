//! `turnstone tour`

use serde_json::json;

use super::agent_scenario::undo_the_agent_after_a_crash;
use super::sandbox::TourSandbox;
use super::scenarios;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Watch undo at work in a temporary project, in less than a minute
///
/// Two agents and a person change the same files, one agent is killed halfway, and the changes of each
/// are undone exactly. Then Turnstone's own agent works on a prompt, played from a script: it is killed, goes on,
/// and is undone. Every statement is checked; the tour exits with 1 if a check fails. The temporary
/// project is removed at the end, and your own data does not change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone tour")]
pub(crate) struct TourArgs {}

/// Runs all scenarios.
///
/// # Errors
///
/// A check failed, or a program could not be run.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, _: &TourArgs) -> Result<ProgramExit, CliError> {
    let mut sandbox = TourSandbox::create(ui, app)?;
    let sessions = scenarios::undo_one_of_two_agents(&mut sandbox)?;
    scenarios::redo_after_undo(&mut sandbox, &sessions)?;
    scenarios::undo_concurrent_agents(&mut sandbox)?;
    scenarios::undo_after_kill(&mut sandbox)?;
    scenarios::jump_to_checkpoint(&mut sandbox, &sessions)?;
    undo_the_agent_after_a_crash(&mut sandbox)?;
    scenarios::show_history(&mut sandbox, &sessions)?;
    let claims = sandbox.tear_down()?;
    if ui.wants_json() {
        ui.print_json(&json!({ "claims": claims }))?;
    }
    Ok(ProgramExit::Ok)
}
