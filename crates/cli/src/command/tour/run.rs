//! `turnstone tour`

use serde_json::json;

use super::scene;
use super::stage::Stage;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
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
pub(crate) fn run(ui: &mut Ui, app: &App, _: &TourArgs) -> Result<Exit, CliError> {
    let mut stage = Stage::build(ui, app)?;
    let sessions = scene::take_turns(&mut stage)?;
    scene::redo(&mut stage, &sessions)?;
    scene::overlap(&mut stage)?;
    scene::kill(&mut stage)?;
    scene::travel(&mut stage, &sessions)?;
    scene::look_back(&mut stage, &sessions)?;
    let claims = stage.strike()?;
    if ui.wants_json() {
        ui.json(&json!({ "claims": claims }))?;
    }
    Ok(Exit::Ok)
}
