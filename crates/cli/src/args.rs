//! The command line: every command and flag. The doc comments of commands and flags are the help text.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::command::{
    auth, checkpoint, completions, config, db, diff, doctor, exec, export, forget, fork, import,
    jump, log, man, mcp, models, permission, project, run, search, serve, session, snapshot, stats,
    status, todo, tour, trust, undo, worktree,
};
use crate::environment::GlobalArgs;

/// Record what coding agents do to your files, and undo exactly that
#[derive(Debug, Parser)]
#[command(name = "turnstone", bin_name = "turnstone", version, propagate_version = true)]
#[command(max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_long_help = CONVENTIONS)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// What the program does and for whom: the first lines of the help.
const INTRODUCTION: &str = "\
Turnstone keeps a durable record of what coding agents do in your projects: every session, prompt,
command and changed file. With it you can undo exactly what one agent did, today or next week, while
your own edits stay as they are.";

/// Where to begin: what the long help and the man page add to the introduction.
const FIRST_STEPS: &str = "\
Start with `turnstone tour`, or run your agent with `turnstone exec -- AGENT` and undo its changes
with `turnstone undo`. The record is a local database; nothing leaves your machine.";

const CONVENTIONS: &str = "\
IDs can be shortened to any unique prefix. Data is printed to stdout, messages to stderr; with
--json, data is printed as JSON, and an error is the last line on stderr:
{\"error\":{\"kind\":\"refused\",\"message\":\"...\",\"hint\":\"...\"}}, where kind is refused, usage,
conflict or bug.

Exit codes:
   0  success
   1  the request was refused, or something it needs is missing
   2  invalid usage: unknown option, missing argument or the like
   3  the reader of the output closed the pipe
   4  incomplete or conflict: the session is busy, or a file was skipped (the output says why)
  70  internal error: a bug in Turnstone, please report it
`turnstone exec` exits with the exit code of its command, with 127 or 126 if the command cannot be
started, and with 125 if Turnstone itself failed before the start.";

/// The commands by job, in the order of the help.
const COMMAND_GROUPS: [(&str, &[&str]); 7] = [
    (
        "Run agents and undo their changes",
        &["run", "exec", "undo", "redo", "jump", "checkpoint", "fork"],
    ),
    ("See what happened", &["status", "log", "diff", "session", "search", "stats", "todo"]),
    (
        "Manage files, projects and permissions",
        &["snapshot", "worktree", "project", "permission", "approve", "forget"],
    ),
    ("Set up agents and models", &["models", "auth", "config", "trust", "mcp"]),
    ("Work with OpenCode", &["serve", "import", "export"]),
    ("Check and maintain the data", &["doctor", "db"]),
    ("Help and setup", &["tour", "completions", "man", "help"]),
];

impl Cli {
    /// Parses command line arguments, the first of which is the program's name.
    ///
    /// # Errors
    ///
    /// The arguments are invalid, or ask for help or the version.
    pub(crate) fn parse_from_args(args: &[OsString]) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::definition().try_get_matches_from(args)?)
    }

    /// The command line with its help pages; the top-level page lists the commands by job.
    pub(crate) fn definition() -> clap::Command {
        let command = Self::command();
        let heading = command.get_styles().get_header();
        let literal = command.get_styles().get_literal();
        let mut list = String::new();
        for (title, names) in COMMAND_GROUPS {
            list.push_str(&format!("{heading}{title}:{heading:#}\n"));
            for name in names {
                let found = command.find_subcommand(name).and_then(clap::Command::get_about);
                let about = found
                    .map_or_else(|| "Print help for a command".to_owned(), ToString::to_string);
                list.push_str(&format!("  {literal}{name:<12}{literal:#} {about}\n"));
            }
            list.push('\n');
        }
        let usage = "{usage-heading} {usage}";
        let options = format!("{heading}Options:{heading:#}\n{{options}}{{after-help}}");
        command
            .long_about(format!("{INTRODUCTION}\n\n{FIRST_STEPS}"))
            .help_template(format!("{INTRODUCTION}\n\n{usage}\n\n{list}{options}"))
    }
}

/// All commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Run(run::RunArgs),
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
    /// Supervise one command for `exec`
    #[command(hide = true)]
    Supervise {
        /// The command is a terminal: a person types in it, and not an agent
        #[arg(long)]
        terminal: bool,
    },
    /// List, show, rename, archive and delete sessions
    #[command(subcommand, arg_required_else_help = true)]
    Session(session::SessionCommand),
    /// Capture a directory, compare captures, restore files
    #[command(subcommand, arg_required_else_help = true)]
    Snapshot(snapshot::SnapshotCommand),
    Todo(todo::TodoArgs),
    /// List, explain, set and revoke permissions of agents
    #[command(subcommand, arg_required_else_help = true)]
    Permission(permission::PermissionCommand),
    Approve(permission::ApproveArgs),
    /// List, relink and remove projects
    #[command(subcommand, arg_required_else_help = true)]
    Project(project::ProjectCommand),
    /// Create, reset and remove git worktrees of this project
    #[command(subcommand, arg_required_else_help = true)]
    Worktree(worktree::WorktreeCommand),
    Models(models::ModelsArgs),
    /// Store, list and remove keys of providers
    #[command(subcommand, arg_required_else_help = true)]
    Auth(auth::AuthCommand),
    /// Show and check the configuration of agents and models
    #[command(subcommand, arg_required_else_help = true)]
    Config(config::ConfigCommand),
    Trust(trust::TrustArgs),
    /// List MCP servers and their tools, and forget which were allowed
    #[command(subcommand, arg_required_else_help = true)]
    Mcp(mcp::McpCommand),
    Search(search::SearchArgs),
    Stats(stats::StatsArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Forget(forget::ForgetArgs),
    Doctor(doctor::DoctorArgs),
    /// Maintain the database
    #[command(subcommand, arg_required_else_help = true)]
    Db(db::DbCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl CliCommand {
    /// The log verbosity this command needs even without `-v`.
    pub(crate) fn min_verbosity(&self) -> u8 {
        u8::from(matches!(self, Self::Serve(args) if args.print_logs))
    }

    /// True for commands that handle signals themselves.
    pub(crate) const fn listens_to_signals(&self) -> bool {
        matches!(
            self,
            Self::Run(_) | Self::Serve(_) | Self::Snapshot(snapshot::SnapshotCommand::Watch)
        )
    }

    /// True for commands whose output may be long and is shown in a pager on terminals.
    pub(crate) const fn is_paged(&self) -> bool {
        use session::SessionCommand;
        use snapshot::SnapshotCommand;
        match self {
            Self::Log(_) | Self::Diff(_) | Self::Search(_) | Self::Models(_) => true,
            Self::Config(command) => matches!(command, config::ConfigCommand::Show { .. }),
            Self::Session(command) => {
                matches!(command, SessionCommand::List(_) | SessionCommand::Show(_))
            }
            Self::Snapshot(command) => matches!(
                command,
                SnapshotCommand::List(_) | SnapshotCommand::Show(_) | SnapshotCommand::Diff(_)
            ),
            Self::Run(_)
            | Self::Exec(_)
            | Self::Undo(_)
            | Self::Redo(_)
            | Self::Jump(_)
            | Self::Checkpoint(_)
            | Self::Fork(_)
            | Self::Status(_)
            | Self::Tour(_)
            | Self::Serve(_)
            | Self::Supervise { .. }
            | Self::Todo(_)
            | Self::Permission(_)
            | Self::Approve(_)
            | Self::Project(_)
            | Self::Worktree(_)
            | Self::Auth(_)
            | Self::Trust(_)
            | Self::Mcp(_)
            | Self::Stats(_)
            | Self::Import(_)
            | Self::Export(_)
            | Self::Forget(_)
            | Self::Doctor(_)
            | Self::Db(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_groups_contain_every_visible_command_once() {
        let command = Cli::definition();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        visible.push("help");
        let mut grouped: Vec<&str> =
            COMMAND_GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }
}
