//! `turnstone exec`

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use turnstone_core::id::SessionId;
use turnstone_core::model::{Session, SessionStatus};
use turnstone_engine::{
    ClosedCall, CommandEnd, CommandExecution, Engine, ExecutionResult, NewSession, WorktreeRequest,
};
use turnstone_store::Context;

use super::shell_quote::quote_command;
use super::supervised_run::{self, EXIT_NOT_STARTED};
use crate::app::CliApp;
use crate::command::worktree::worktree_error;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::project_location::ProjectLocation;
use crate::session_lookup;
use crate::text;
use crate::ui::{Ui, WARNING_STYLE, apply_style};

/// Maximum width of a title made from a command line.
const MAX_TITLE_WIDTH: usize = 80;

/// Run any command as a turn that can be undone
///
/// Captures the directory before and after the command. What changed in between belongs to the turn,
/// and `turnstone undo` undoes exactly that. Input, output, signals and the terminal are passed through
/// to the command. The exit code is that of the command, 128 + n if signal n ended it, 127 or 126 if it
/// could not be started, or 125 if Turnstone itself failed. If Turnstone is killed, the command is ended
/// too, and the next Turnstone command in this directory records what it had changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone exec -- my-agent \"fix the tide table\"\n  \
                        turnstone exec --session ses_e21d -- make fmt\n  \
                        turnstone exec --worktree=other-way -- my-agent")]
pub(crate) struct ExecArgs {
    /// Continue this session instead of starting a new one: ID or unique prefix
    #[arg(long, value_name = "ID")]
    session: Option<IdPrefix>,

    /// Title of the new session [default: the command]
    #[arg(long, value_name = "TITLE", conflicts_with = "session")]
    title: Option<String>,

    /// Run in the worktree NAME, which is created if needed; without NAME, a random name is generated
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", conflicts_with = "session")]
    worktree: Option<String>,

    /// Command and arguments
    #[arg(value_name = "CMD", required = true, num_args = 1.., trailing_var_arg = true)]
    #[arg(allow_hyphen_values = true, value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Runs the command; a failure before its start exits with a separate code (R33).
///
/// # Errors
///
/// None: errors are printed here.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &ExecArgs) -> Result<ProgramExit, CliError> {
    Ok(match execute(ui, app, args) {
        Ok(code) => ProgramExit::CommandCode(code),
        Err(error) => {
            ui.print_error(&error);
            ProgramExit::CommandCode(EXIT_NOT_STARTED)
        }
    })
}

fn execute(ui: &mut Ui, app: &CliApp, args: &ExecArgs) -> Result<u8, CliError> {
    let ctx = app.context();
    let (engine, recovered) = app.open_recovered_engine(&ctx)?;
    session_lookup::report_recovery(ui, 0, recovered);
    let line = quote_command(&args.command);
    let place = match &args.worktree {
        Some(name) => find_or_create_worktree(ui, app, &engine, &ctx, name)?,
        None => app.directory()?.to_owned(),
    };
    let (session, is_new) = resolve_or_draft_session(app, &engine, &ctx, args, &line, &place)?;
    let begin = || match is_new {
        true => engine.turns().commands().begin_exec_in_new_session(&ctx, &session, &line),
        false => engine.turns().commands().begin_exec(&ctx, &session, &line),
    };
    let mut execution = ui.with_spinner("capturing the directory for undo", begin)?;
    warn_undo_limits(ui, &session, &execution);
    let ExecutionResult { end, code, left_running: left } =
        supervised_run::run_supervised(app, &engine, &ctx, &mut execution, &place, &args.command)?;
    match &end {
        CommandEnd::NotStarted(why) | CommandEnd::Lost(why) => {
            ui.print_note(&format!("turnstone: {}", text::sanitize_line(why)));
        }
        CommandEnd::Exited { .. } => {}
    }
    if left > 0 {
        let count = number_format::format_counted(left, "process");
        ui.print_note(&format!(
            "turnstone: {count} still running; later changes cannot be undone with this turn"
        ));
    }
    let covered = execution.call.is_covered();
    let ended = ui.with_spinner("recording what changed", || {
        engine.turns().commands().end(&app.context(), execution, &end)
    });
    match ended {
        Ok(closed) => print_change_count(ui, closed.filter(|_| covered).as_ref()),
        // The command has run, so its exit code is returned. Recovery records the changes later.
        Err(error) => {
            ui.print_error(&error.into());
            ui.print_note("turnstone: the next Turnstone command here records what was changed");
        }
    }
    app.run_maintenance(&engine);
    Ok(u8::try_from(code & 0xff).unwrap_or(EXIT_NOT_STARTED))
}

/// The given session, or a new one (true), which is stored with the turn.
fn resolve_or_draft_session(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    args: &ExecArgs,
    line: &str,
    directory: &Path,
) -> Result<(Session, bool), CliError> {
    if let Some(prefix) = &args.session {
        let session = session_lookup::resolve_session_or_newest(app, engine, ctx, Some(prefix))?;
        let projects = engine.store().read(ctx, |r| r.projects().list())?;
        if !ProjectLocation::find(&projects, directory).contains_session(&session) {
            let (id, home) = (&session.id, text::sanitize_line(&session.directory));
            return Err(CliError::Refused {
                what: format!("session {id} belongs to {home}, not to this directory"),
                hint: Some(format!("run it in {home}, or omit --session")),
            });
        }
        return Ok((session, false));
    }
    let title = args
        .title
        .clone()
        .unwrap_or_else(|| text::truncate_to_width(&text::sanitize_line(line), MAX_TITLE_WIDTH));
    let new = NewSession {
        title: Some(title),
        parent: find_parent_session(app, engine, ctx)?,
        ..NewSession::default()
    };
    Ok((engine.projects().draft_session(ctx, directory, &new)?, true))
}

/// Finds the worktree of this name or creates it.
fn find_or_create_worktree(
    ui: &mut Ui,
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    name: &str,
) -> Result<PathBuf, CliError> {
    let project = engine.projects().open(ctx, app.directory()?)?.project.id;
    let listed = engine.projects().worktrees().list(ctx, &project).map_err(worktree_error)?;
    let known = listed.into_iter().find(|it| it.made && it.ready && it.name == name);
    let found = match known {
        Some(known) => known,
        None => {
            let name = Some(name.to_owned()).filter(|name| !name.is_empty());
            let new = WorktreeRequest { name, ..WorktreeRequest::default() };
            engine.projects().worktrees().create(ctx, &project, &new).map_err(worktree_error)?
        }
    };
    let directory = text::sanitize_line(&found.directory.to_string_lossy());
    ui.print_dim_note(&format!("turnstone: in worktree {} ({directory})", found.name));
    Ok(found.directory)
}

/// The running session that this command was started from; the inner window then wins (R3).
fn find_parent_session(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
) -> Result<Option<SessionId>, CliError> {
    let Some(id) = app.enclosing_session().and_then(|text| text.parse::<SessionId>().ok()) else {
        return Ok(None);
    };
    Ok(engine.store().read(ctx, |r| {
        let known = r.sessions().find(&id)?.is_some();
        let runs = known && !matches!(r.sessions().status(&id)?, SessionStatus::Idle);
        Ok(runs.then_some(id))
    })?)
}

/// Warns about limits of undo before the command runs.
fn warn_undo_limits(ui: &mut Ui, session: &Session, execution: &CommandExecution) {
    let mark = apply_style(WARNING_STYLE, "turnstone:");
    if execution.call.is_over_budget() {
        ui.print_note(&format!("{mark} no space for undo data: this command cannot be undone"));
    } else if !execution.call.is_covered() {
        let place = text::sanitize_line(&session.directory);
        ui.print_note(&format!("{mark} undo is not available in {place}; the command runs anyway"));
    }
    for other in &execution.concurrent {
        let title = text::truncate_to_width(&text::sanitize_line(&other.title), MAX_TITLE_WIDTH);
        let other = &other.session;
        ui.print_note(&format!(
            "{mark} another command is running here ({title}, {other}); files that both change \
             can only be undone together"
        ));
        ui.print_hint("to keep them separate, use `turnstone exec --worktree -- COMMAND`");
    }
}

/// Prints the number of changed files on a terminal.
fn print_change_count(ui: &mut Ui, closed: Option<&ClosedCall>) {
    let Some(closed) =
        closed.filter(|closed| ui.is_stderr_terminal() && !closed.changes.is_empty())
    else {
        return;
    };
    let files = number_format::format_counted(closed.changes.len(), "file");
    ui.print_dim_note(&format!("turnstone: {files} changed; `turnstone undo` reverts this"));
}
