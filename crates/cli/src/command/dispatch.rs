//! Dispatches to the commands.

use crate::app::CliApp;
use crate::args::CliCommand;
use crate::command::{
    auth, checkpoint, completions, config, db, diff, doctor, exec, export, forget, fork, import,
    jump, log, man, mcp, models, permission, project, run, search, serve, session, snapshot, stats,
    status, todo, tour, trust, undo, worktree,
};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Runs a command.
///
/// # Errors
///
/// The error of the command.
pub(crate) fn run_command(
    ui: &mut Ui,
    app: &CliApp,
    command: &CliCommand,
) -> Result<ProgramExit, CliError> {
    match command {
        CliCommand::Run(args) => run::run(ui, app, args),
        CliCommand::Exec(args) => exec::run(ui, app, args),
        CliCommand::Undo(args) => undo::undo(ui, app, args),
        CliCommand::Redo(args) => undo::redo(ui, app, args),
        CliCommand::Jump(args) => jump::run(ui, app, args),
        CliCommand::Checkpoint(args) => checkpoint::run(ui, app, args),
        CliCommand::Fork(args) => fork::run(ui, app, args),
        CliCommand::Diff(args) => diff::run(ui, app, args),
        CliCommand::Log(args) => log::run(ui, app, args),
        CliCommand::Status(args) => status::run(ui, app, args),
        CliCommand::Tour(args) => tour::run(ui, app, args),
        CliCommand::Serve(args) => serve::run(ui, app, args),
        CliCommand::Supervise { .. } => Ok(exec::supervise()),
        CliCommand::Session(command) => session::run(ui, app, command),
        CliCommand::Snapshot(command) => snapshot::run(ui, app, command),
        CliCommand::Todo(args) => todo::run(ui, app, args),
        CliCommand::Permission(command) => permission::run(ui, app, command),
        CliCommand::Approve(args) => permission::approve(ui, app, args),
        CliCommand::Project(command) => project::run(ui, app, command),
        CliCommand::Worktree(command) => worktree::run(ui, app, command),
        CliCommand::Models(args) => models::run(ui, app, args),
        CliCommand::Auth(command) => auth::run(ui, app, command),
        CliCommand::Config(command) => config::run(ui, app, command),
        CliCommand::Trust(args) => trust::run(ui, app, args),
        CliCommand::Mcp(command) => mcp::run(ui, app, command),
        CliCommand::Stats(args) => stats::run(ui, app, args),
        CliCommand::Doctor(args) => doctor::run(ui, app, args),
        CliCommand::Search(args) => search::run(ui, app, args),
        CliCommand::Import(args) => import::run(ui, app, args),
        CliCommand::Export(args) => export::run(ui, app, args),
        CliCommand::Forget(args) => forget::run(ui, app, args),
        CliCommand::Db(command) => db::run(ui, app, command),
        CliCommand::Completions(args) => completions::run(ui, args),
        CliCommand::Man(args) => man::run(ui, args),
    }
}
