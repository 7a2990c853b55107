//! stub
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// See undo at work in a temporary project, in less than a minute
#[derive(Debug, clap::Args)]
pub(crate) struct TourArgs {}

pub(crate) fn run(_ui: &mut Ui, _app: &App, _: &TourArgs) -> Result<Exit, CliError> {
    Ok(Exit::Ok)
}
