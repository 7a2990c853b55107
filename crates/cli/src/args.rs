//! The command line: every command and flag; the comments are the help people read.

use clap::{Parser, Subcommand};

use crate::command::{
    checkpoint, completions, db, diff, doctor, exec, export, forget, fork, import, jump, log, man,
    permission, project, search, serve, session, snapshot, stats, status, todo, tour, undo,
    worktree,
};
use crate::environment::GlobalArgs;

/// The durable memory and the undo of coding agents
///
/// Sessions, messages and everything agents did are kept in one local database in which nothing
/// acknowledged is lost. Data goes to stdout, everything else to stderr; --json gives every list
/// and every thing as JSON. An id may be cut to a beginning that no other id has.
#[derive(Debug, Parser)]
#[command(name = "turnstone", bin_name = "turnstone", version, propagate_version = true)]
#[command(max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

const EXIT_CODES: &str = "\
Exit codes:
   0  done
   1  refused, or something needed is missing
   2  the command line makes no sense
   3  the output was closed early
   4  busy, changed by somebody else, or a file was left alone: look, then try again
  70  a bug in turnstone: please report it
`exec` ends with the code of its command, with 127 or 126 if that cannot be started, and with 125
if turnstone itself could not begin.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Exec(exec::ExecArgs),
    Undo(undo::UndoArgs),
    Redo(undo::RedoArgs),
    Jump(jump::JumpArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Fork(fork::ForkArgs),
    Diff(diff::DiffArgs),
    Log(log::LogArgs),
    Status(status::StatusArgs),
    Tour(tour::TourArgs),
    Serve(serve::ServeArgs),
    /// Watch over one command, for `exec`
    #[command(hide = true)]
    Supervise,
    /// List, show and tidy up sessions
    #[command(subcommand, arg_required_else_help = true)]
    Session(session::SessionCommand),
    /// Capture a directory, compare, restore, and take that back
    #[command(subcommand, arg_required_else_help = true)]
    Snapshot(snapshot::SnapshotCommand),
    Todo(todo::TodoArgs),
    /// List, explain, set and revoke permissions of tools
    #[command(subcommand, arg_required_else_help = true)]
    Permission(permission::PermissionCommand),
    /// List projects, tell where they went, forget them
    #[command(subcommand, arg_required_else_help = true)]
    Project(project::ProjectCommand),
    /// Make, reset and remove further checkouts of this project
    #[command(subcommand, arg_required_else_help = true)]
    Worktree(worktree::WorktreeCommand),
    Search(search::SearchArgs),
    Stats(stats::StatsArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Forget(forget::ForgetArgs),
    Doctor(doctor::DoctorArgs),
    /// Look after the database
    #[command(subcommand, arg_required_else_help = true)]
    Db(db::DbCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl CliCommand {
    /// How much of what the crates trace is wanted in any case.
    pub(crate) fn min_verbosity(&self) -> u8 {
        u8::from(matches!(self, Self::Serve(args) if args.print_logs))
    }

    /// True for commands that decide themselves what a signal ends.
    pub(crate) const fn listens_to_signals(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Snapshot(snapshot::SnapshotCommand::Watch))
    }
}
