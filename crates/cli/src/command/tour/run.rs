//! `turnstone tour`

use serde_json::json;

use super::sandbox::TourSandbox;
use super::scenarios;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// See undo at work in a temporary project, in less than a minute
///
/// Two agents and a person change the same files, one agent is killed in the middle, and each is
/// taken back exactly. Every claim is checked; the tour ends with 1 if one does not hold. Nothing
/// is left behind, and your own data is not touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone tour")]
pub(crate) struct TourArgs {}

/// Plays every scene.
///
/// # Errors
///
/// A claim does not hold, or a program could not be run.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, _: &TourArgs) -> Result<ProgramExit, CliError> {
    let mut stage = TourSandbox::create(ui, app)?;
    let sessions = scenarios::undo_one_of_two_agents(&mut stage)?;
    scenarios::redo_after_undo(&mut stage, &sessions)?;
    scenarios::undo_concurrent_agents(&mut stage)?;
    scenarios::undo_after_kill(&mut stage)?;
    scenarios::jump_to_checkpoint(&mut stage, &sessions)?;
    scenarios::show_history(&mut stage, &sessions)?;
    let claims = stage.tear_down()?;
    if ui.wants_json() {
        ui.print_json(&json!({ "claims": claims }))?;
    }
    Ok(ProgramExit::Ok)
}
