//! The commands about snapshots.

use clap::Subcommand;

use super::{diff, disk_usage, list, restore, show, track, undo, verify, watch};
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Commands about snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    Track(track::TrackArgs),
    List(list::SnapshotListArgs),
    Show(show::SnapshotShowArgs),
    Diff(diff::SnapshotDiffArgs),
    Restore(restore::RestoreArgs),
    Undo(undo::SnapshotUndoArgs),
    Du(disk_usage::DuArgs),
    Gc(disk_usage::GcArgs),
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
        SnapshotCommand::Du(args) => disk_usage::print_disk_usage(ui, app, args),
        SnapshotCommand::Gc(args) => disk_usage::collect_garbage(ui, app, args),
        SnapshotCommand::Verify => verify::run(ui, app),
        SnapshotCommand::GitDir => verify::print_git_dir(ui, app),
        SnapshotCommand::Watch => watch::run(ui, app),
    }
}
