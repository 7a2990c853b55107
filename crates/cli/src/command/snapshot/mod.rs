//! `turnstone snapshot`: captures a directory and restores files.

mod diff;
mod directory_store;
mod disk_usage;
mod list;
mod messages;
mod path_args;
mod restore;
mod restore_report;
mod show;
mod subcommands;
mod track;
mod undo;
mod verify;
mod watch;

pub(crate) use directory_store::{creating_store_options, open_existing_store};
pub(crate) use messages::{
    describe_conflict, describe_journal_problem, describe_skip_reason, describe_stored_reason,
    exit_for_snapshot_error, hint_for_snapshot_error,
};
pub(crate) use path_args::resolve_paths;
pub(crate) use restore_report::{predict_report, print_kept_directories};
pub(crate) use subcommands::{SnapshotCommand, run};
