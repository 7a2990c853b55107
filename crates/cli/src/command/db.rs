//! `turnstone db`: the file itself.

use std::os::unix::ffi::OsStrExt;

use clap::Subcommand;
use serde_json::json;

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Commands about the database.
#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Print where the database is
    #[command(after_help = "Example:\n  sqlite3 -readonly \"$(turnstone db path)\" .tables")]
    Path,
}

/// Runs a command about the database.
///
/// # Errors
///
/// What the command answers.
pub(crate) fn run(ui: &mut Ui, app: &App, command: &DbCommand) -> Result<Exit, CliError> {
    match command {
        DbCommand::Path => path(ui, app),
    }
}

fn path(ui: &mut Ui, app: &App) -> Result<Exit, CliError> {
    let file = app.layout().database();
    if ui.wants_json() {
        ui.json(&json!({ "path": file }))?;
    } else {
        ui.raw(file.as_os_str().as_bytes())?;
        ui.line("")?;
    }
    Ok(Exit::Ok)
}
