//! Hands each command what it asked for.

use crate::app::App;
use crate::args::Command;
use crate::command::{
    completions, db, doctor, export, import, man, permission, search, session, snapshot, stats,
    todo,
};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Runs a command.
///
/// # Errors
///
/// What the command answers.
pub(crate) fn run(ui: &mut Ui, app: &App, command: &Command) -> Result<Exit, CliError> {
    match command {
        Command::Session(command) => session::run(ui, app, command),
        Command::Snapshot(command) => snapshot::run(ui, app, command),
        Command::Todo(args) => todo::run(ui, app, args),
        Command::Permission(command) => permission::run(ui, app, command),
        Command::Stats(args) => stats::run(ui, app, args),
        Command::Doctor(args) => doctor::run(ui, app, args),
        Command::Search(args) => search::run(ui, app, args),
        Command::Import(args) => import::run(ui, app, args),
        Command::Export(args) => export::run(ui, app, args),
        Command::Db(command) => db::run(ui, app, command),
        Command::Completions(args) => completions::run(ui, args),
        Command::Man(args) => man::run(ui, args),
    }
}
