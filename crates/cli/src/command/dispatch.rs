//! Hands each command what it asked for.

use crate::app::App;
use crate::args::Command;
use crate::command::{
    checkpoint, completions, db, diff, doctor, exec, export, fork, import, jump, log, man,
    permission, project, search, serve, session, snapshot, stats, status, todo, tour, undo,
    worktree,
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
        Command::Exec(args) => exec::run(ui, app, args),
        Command::Undo(args) => undo::undo(ui, app, args),
        Command::Redo(args) => undo::redo(ui, app, args),
        Command::Jump(args) => jump::run(ui, app, args),
        Command::Checkpoint(args) => checkpoint::run(ui, app, args),
        Command::Fork(args) => fork::run(ui, app, args),
        Command::Diff(args) => diff::run(ui, app, args),
        Command::Log(args) => log::run(ui, app, args),
        Command::Status(args) => status::run(ui, app, args),
        Command::Tour(args) => tour::run(ui, app, args),
        Command::Serve(args) => serve::run(ui, app, args),
        Command::Supervise => Ok(exec::supervise()),
        Command::Session(command) => session::run(ui, app, command),
        Command::Snapshot(command) => snapshot::run(ui, app, command),
        Command::Todo(args) => todo::run(ui, app, args),
        Command::Permission(command) => permission::run(ui, app, command),
        Command::Project(command) => project::run(ui, app, command),
        Command::Worktree(command) => worktree::run(ui, app, command),
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
