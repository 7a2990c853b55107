//! The commands about snapshots.

use clap::Subcommand;

use super::{diff, history, restore, show, space, track, undo, verify, watch};
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Commands about snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    Track(track::TrackArgs),
    List(history::ListArgs),
    Show(show::ShowArgs),
    Diff(diff::DiffArgs),
    Restore(restore::RestoreArgs),
    Undo(undo::UndoArgs),
    Du(space::DuArgs),
    Gc(space::GcArgs),
    /// Read every stored object and compare it with its name
    ///
    /// Ends with 1 if something is damaged or missing.
    #[command(after_help = "Example:\n  turnstone snapshot verify")]
    Verify,
    /// Print where the repository with the captures is
    #[command(after_help = "Example:\n  \
                            git --git-dir \"$(turnstone snapshot git-dir)\" log --all --oneline")]
    GitDir,
    /// Keep the store warm for other commands until Ctrl-C
    ///
    /// Commands that run meanwhile are served by this process. It prints one line when it is ready
    /// and looks after the store once an hour.
    #[command(after_help = "Example:\n  turnstone snapshot watch &")]
    Watch,
}

/// Runs a command about snapshots.
///
/// # Errors
///
/// What the command answers.
pub(crate) fn run(ui: &mut Ui, app: &App, command: &SnapshotCommand) -> Result<Exit, CliError> {
    match command {
        SnapshotCommand::Track(args) => track::run(ui, app, args),
        SnapshotCommand::List(args) => history::run(ui, app, args),
        SnapshotCommand::Show(args) => show::run(ui, app, args),
        SnapshotCommand::Diff(args) => diff::run(ui, app, args),
        SnapshotCommand::Restore(args) => restore::run(ui, app, args),
        SnapshotCommand::Undo(args) => undo::run(ui, app, args),
        SnapshotCommand::Du(args) => space::du(ui, app, args),
        SnapshotCommand::Gc(args) => space::gc(ui, app, args),
        SnapshotCommand::Verify => verify::run(ui, app),
        SnapshotCommand::GitDir => verify::git_dir(ui, app),
        SnapshotCommand::Watch => watch::run(ui, app),
    }
}
