//! Subcommands of `turnstone snapshot`.

use clap::Subcommand;

use super::{diff, disk_usage, list, restore, show, track, undo, verify, watch};
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Subcommands of `snapshot`.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    Track(track::TrackArgs),
    List(list::SnapshotListArgs),
    Show(show::SnapshotShowArgs),
    Diff(diff::SnapshotDiffArgs),
    Restore(restore::RestoreArgs),
    Undo(undo::SnapshotUndoArgs),
    Redo(undo::SnapshotRedoArgs),
    Du(disk_usage::DuArgs),
    Gc(disk_usage::GcArgs),
    /// Verify the checksums of all stored objects
    ///
    /// Exits with 1 if an object is damaged or missing.
    #[command(after_help = "Example:\n  turnstone snapshot verify")]
    Verify,
    /// Print the path of the git repository that stores the captures
    #[command(after_help = "Example:\n  \
                            git --git-dir \"$(turnstone snapshot git-dir)\" log --all --oneline")]
    GitDir,
    /// Watch this directory for changes, so that captures are fast
    ///
    /// Runs until Ctrl-C. With the watcher running, captures read only changed files instead of scanning
    /// the whole directory. Prints one line when ready and runs maintenance once an hour.
    #[command(after_help = "Example:\n  turnstone snapshot watch &")]
    Watch,
}

/// Runs a subcommand.
///
/// # Errors
///
/// The error of the subcommand.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &SnapshotCommand,
) -> Result<ProgramExit, CliError> {
    match command {
        SnapshotCommand::Track(args) => track::run(ui, app, args),
        SnapshotCommand::List(args) => list::run(ui, app, args),
        SnapshotCommand::Show(args) => show::run(ui, app, args),
        SnapshotCommand::Diff(args) => diff::run(ui, app, args),
        SnapshotCommand::Restore(args) => restore::run(ui, app, args),
        SnapshotCommand::Undo(args) => undo::run(ui, app, args),
        SnapshotCommand::Redo(args) => undo::redo(ui, app, args),
        SnapshotCommand::Du(args) => disk_usage::print_disk_usage(ui, app, args),
        SnapshotCommand::Gc(args) => disk_usage::collect_garbage(ui, app, args),
        SnapshotCommand::Verify => verify::run(ui, app),
        SnapshotCommand::GitDir => verify::print_git_dir(ui, app),
        SnapshotCommand::Watch => watch::run(ui, app),
    }
}
