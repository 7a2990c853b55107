//! `turnstone exec`

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use turnstone_core::change::{FileChange, UncoveredReason};
use turnstone_core::id::SessionId;
use turnstone_core::model::{Session, SessionStatus};
use turnstone_core::permission::CallerRole;
use turnstone_engine::{
    ClosedCall, CommandEnd, CommandExecution, ContinuableSession, Engine, EngineError,
    ExecutionResult, NewSession, RuleScope, SnapshotAccess, WorktreeRequest,
};
use turnstone_store::Context;

use super::other_worktrees;
use super::shell_quote::quote_command;
use super::supervised_run::{self, EXIT_NOT_STARTED, RunOptions};
use super::trace_notes::print_trace_notes;
use crate::app::CliApp;
use crate::command::snapshot::hint_for_snapshot_error;
use crate::command::worktree::{create_worktree, worktree_error};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::joined_clone;
use crate::number_format;
use crate::project_location::ProjectLocation;
use crate::session_lookup;
use crate::text;
use crate::ui::{Ui, WARNING_STYLE, apply_style};

/// Maximum width of a title made from a command line.
const MAX_TITLE_WIDTH: usize = 80;
/// How many files that cannot be undone are named.
const MAX_NAMED_FILES: usize = 10;

/// Run any command as a turn that can be undone
///
/// Captures the directory before and after the command. What the command changed belongs to the turn, and
/// `turnstone undo` undoes exactly that. The turn is added to the newest `exec` session of this directory.
/// If a turn of that session is running, or one is undone, a new session is started. Input, output, signals
/// and the terminal are passed through to the command. The exit code is that of the command, 128 + n if
/// signal n ended it, 127 or 126 if it could not be started, or 125 if Turnstone itself failed. Processes
/// that the command leaves in the background are ended when it exits and reported, because what they change
/// later could not be undone; `setsid` keeps one running: what it writes later is recorded with the turn
/// once it ends, if the command is traced. If Turnstone is killed, the command is ended too, and the next
/// Turnstone command in this directory records what it had changed. Files that cannot be undone for lack of
/// disk space are named at the end; the exit code stays that of the command.
///
/// What the command and its children write is traced, so that changes which others make meanwhile are left
/// alone; where that is impossible, they count as the command's. In a traced command, a signal can
/// interrupt more system calls than usual (EINTR), and unless Turnstone runs as root, `sudo` and other
/// set-uid programs gain no rights: `--no-trace` runs the command untraced.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone exec -- my-agent \"fix the tide table\"\n  \
                        turnstone exec --session ses_e21d -- make fmt\n  \
                        turnstone exec --worktree=other-way -- my-agent")]
pub(crate) struct ExecArgs {
    /// Continue this session: ID or unique prefix
    #[arg(long, value_name = "ID")]
    session: Option<IdPrefix>,

    /// Start a new session
    #[arg(long, conflicts_with = "session")]
    new: bool,

    /// Start a new session with this title [default: the command]
    #[arg(long, value_name = "TITLE", conflicts_with = "session")]
    title: Option<String>,

    /// Run in the worktree NAME, which is created if needed; without NAME, a random name is generated
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", conflicts_with = "session")]
    worktree: Option<String>,

    /// Do not store what the command prints
    #[arg(long)]
    no_output: bool,

    /// Do not trace which files the command writes
    #[arg(long)]
    no_trace: bool,

    /// Command and arguments
    #[arg(value_name = "CMD", required = true, num_args = 1.., trailing_var_arg = true)]
    #[arg(value_hint = clap::ValueHint::CommandWithArguments)]
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
    // A worktree is created only for a command that can be started, where that is known before.
    if args.worktree.is_some()
        && !is_relative_program(&args.command)
        && let Some(code) = refuse_unstartable(ui, app, app.directory()?, &args.command)?
    {
        return Ok(code);
    }
    let place = match &args.worktree {
        Some(name) => find_or_create_worktree(ui, app, &engine, &ctx, name)?,
        None => app.directory()?.to_owned(),
    };
    check_tool_command(app, &engine, &ctx, &place, &line)?;
    if let Some(code) = refuse_unstartable(ui, app, &place, &args.command)? {
        return Ok(code);
    }
    let chosen = choose_session(app, &engine, &ctx, args, &place)?;
    warn_unreadable_rules(ui, &engine, &ctx, &place)?;
    let begin = || begin_turn(app, &engine, &ctx, (args, &line), &place, chosen);
    let begun = ui.with_spinner("capturing the directory for undo", begin)?;
    let BegunTurn { session, is_new, mut execution } = begun;
    warn_undo_limits(ui, &engine, &session, &execution);
    let options = read_run_options(app, args)?;
    if is_new
        && let Some(project) = engine.store().read(&ctx, |r| r.projects().find(&session.project))?
    {
        joined_clone::print_joined_clone(ui, &engine, &ctx, &project, &place)?;
    }
    let ExecutionResult { end, code, left_running: left, ended_orphans } =
        supervised_run::run_supervised(
            app,
            &engine,
            &ctx,
            &mut execution,
            (&place, &args.command),
            options,
        )?;
    print_failure(ui, &end);
    print_orphans(ui, left, ended_orphans);
    let covered = execution.call.is_covered();
    let ended = ui.with_spinner("recording what changed", || {
        engine.turns().commands().end(&app.context(), execution, &end)
    });
    print_result(ui, ended.map(|closed| closed.filter(|_| covered)), is_new);
    if is_new && matches!(end, CommandEnd::NotStarted(_)) {
        engine.turns().commands().discard_session(&app.context(), &session.id)?;
    }
    app.run_maintenance(&engine);
    Ok(u8::try_from(code & 0xff).unwrap_or(EXIT_NOT_STARTED))
}

/// How the command runs, by its arguments and the configuration.
fn read_run_options(app: &CliApp, args: &ExecArgs) -> Result<RunOptions, CliError> {
    let settings = app.read_config()?.exec;
    Ok(RunOptions {
        keeps_output: !args.no_output && settings.keep_output,
        is_traced: !args.no_trace && settings.trace,
    })
}

/// Says what the command changed, or why that is not known yet.
fn print_result(ui: &mut Ui, ended: Result<Option<ClosedCall>, EngineError>, is_new: bool) {
    match ended {
        Ok(closed) => {
            warn_missing_space(ui, closed.as_ref());
            print_change_count(ui, closed.as_ref());
            print_trace_notes(ui, closed.as_ref());
            other_worktrees::print_notes(ui, closed.as_ref(), is_new);
        }
        // The command has run, so its exit code is returned. Recovery records the changes later.
        Err(error) => {
            ui.print_error(&error.into());
            ui.print_note("turnstone: the next Turnstone command here records what was changed");
        }
    }
}

/// True for a program that is looked for in the directory it runs in.
fn is_relative_program(command: &[OsString]) -> bool {
    let program = command.first().map(Path::new);
    program.is_some_and(|path| path.is_relative() && path.components().count() > 1)
}

/// The exit code of a command that cannot be started there, and says why.
fn refuse_unstartable(
    ui: &mut Ui,
    app: &CliApp,
    place: &Path,
    command: &[OsString],
) -> Result<Option<u8>, CliError> {
    let Err(error) = supervised_run::check_command(app, place, command)? else { return Ok(None) };
    let refused = ExecutionResult::start_refused(&error);
    print_failure(ui, &refused.end);
    Ok(Some(u8::try_from(refused.code).unwrap_or(EXIT_NOT_STARTED)))
}

/// Prints what became of the processes that outlived the command.
fn print_orphans(ui: &mut Ui, left: usize, ended: usize) {
    if ended > 0 {
        let count = number_format::format_counted(ended, "background process");
        ui.print_note(&format!("turnstone: {count} ended with the command"));
        ui.print_hint(
            "`setsid` keeps a process running; what it writes later is recorded with the turn if the command is traced",
        );
    }
    if left > 0 {
        let count = number_format::format_counted(left, "process");
        ui.print_note(&format!(
            "turnstone: {count} still running; later changes cannot be undone with this turn"
        ));
    }
}

/// Prints why a command did not run or was lost.
fn print_failure(ui: &mut Ui, end: &CommandEnd) {
    match end {
        CommandEnd::NotStarted(why) | CommandEnd::Lost(why) if ui.wants_json() => {
            ui.print_error(&CliError::Refused { what: why.clone(), hint: None });
        }
        CommandEnd::NotStarted(why) | CommandEnd::Lost(why) => {
            ui.print_note(&format!("turnstone: {}", text::sanitize_line(why)));
        }
        CommandEnd::Exited { .. } => {}
    }
}

/// The session of the turn.
enum ExecSession {
    /// The one that was asked for.
    Given(Box<Session>),
    /// The newest one of the directory.
    Continued(Box<ContinuableSession>),
    /// A new one, below the session that this command was started from.
    New(Option<SessionId>),
}

/// A turn whose command can run now.
struct BegunTurn {
    session: Session,
    /// True if the session was created with the turn.
    is_new: bool,
    execution: CommandExecution,
}

/// The given session, the newest one of the directory if it can be continued, or a new one.
fn choose_session(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    args: &ExecArgs,
    directory: &Path,
) -> Result<ExecSession, CliError> {
    if let Some(prefix) = &args.session {
        // First the place: if the project was moved here, its sessions come along.
        let location = ProjectLocation::find(engine, ctx, directory)?;
        let session = session_lookup::resolve_session_or_newest(app, engine, ctx, Some(prefix))?;
        if !location.contains_session(&session) {
            let (id, home) = (&session.id, text::sanitize_line(&session.directory));
            return Err(CliError::Refused {
                what: format!("session {id} belongs to {home}, not to this directory"),
                hint: Some(format!("run it in {home}, or omit --session")),
            });
        }
        return Ok(ExecSession::Given(Box::new(session)));
    }
    let parent = find_parent_session(app, engine, ctx)?;
    if args.new || args.title.is_some() || parent.is_some() {
        return Ok(ExecSession::New(parent));
    }
    if ProjectLocation::find(engine, ctx, directory)?.project.is_none() {
        return Ok(ExecSession::New(None));
    }
    // What is new about the directory, such as a repository, is recorded as for a new session.
    let project = engine.projects().open(ctx, directory)?.project.id;
    let found = engine.turns().commands().find_continuable(ctx, &project, directory)?;
    Ok(found.map_or(ExecSession::New(None), |found| ExecSession::Continued(Box::new(found))))
}

/// Begins the turn; a session that another process continued meanwhile is left to that one.
fn begin_turn(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    (args, line): (&ExecArgs, &str),
    directory: &Path,
    chosen: ExecSession,
) -> Result<BegunTurn, CliError> {
    let commands = engine.turns().commands();
    let parent = match chosen {
        ExecSession::Given(session) => {
            let execution = commands.begin_exec(ctx, &session, line)?;
            return Ok(BegunTurn { session: *session, is_new: false, execution });
        }
        ExecSession::Continued(found) => {
            if let Some(execution) = commands.begin_exec_continuing(ctx, &found, line)? {
                return Ok(BegunTurn { session: found.session, is_new: false, execution });
            }
            None
        }
        ExecSession::New(parent) => parent,
    };
    let title = args
        .title
        .clone()
        .unwrap_or_else(|| text::truncate_to_width(&text::sanitize_line(line), MAX_TITLE_WIDTH));
    let new = NewSession { title: Some(title), parent, ..NewSession::default() };
    // Another process may have written meanwhile, so this happened later.
    let ctx = &app.context();
    let session = engine.projects().draft_session(ctx, directory, &new)?;
    let execution = commands.begin_exec_in_new_session(ctx, &session, line)?;
    Ok(BegunTurn { session, is_new: true, execution })
}

/// Finds the worktree of this name or creates it.
fn find_or_create_worktree(
    ui: &mut Ui,
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    name: &str,
) -> Result<PathBuf, CliError> {
    let project = engine.projects().find_or_derive(ctx, app.directory()?)?.project;
    let listed = engine.projects().worktrees().list(&project).map_err(worktree_error)?;
    let known = listed.into_iter().find(|it| it.made && it.ready && it.name == name);
    let found = match known {
        Some(known) => known,
        None => {
            let name = Some(name.to_owned()).filter(|name| !name.is_empty());
            let new = WorktreeRequest { name, ..WorktreeRequest::default() };
            create_worktree(engine, ctx, app.directory()?, &project, &new)?
        }
    };
    let directory = text::sanitize_line(&found.directory.to_string_lossy());
    ui.print_dim_note(&format!("turnstone: in worktree {} ({directory})", found.name));
    Ok(found.directory)
}

/// The running session that this command was started from; the inner window then wins (R3).
pub(crate) fn find_parent_session(
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

/// Refuses a command that the rules deny, if a tool runs it; a person's own commands are not judged.
fn check_tool_command(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    directory: &Path,
    line: &str,
) -> Result<(), CliError> {
    if app.role() == CallerRole::Person {
        return Ok(());
    }
    let above = app.enclosing_session().and_then(|text| text.parse::<SessionId>().ok());
    let above = match above {
        Some(id) => engine.store().read(ctx, |r| r.sessions().find(&id))?.map(|it| it.id),
        None => None,
    };
    let roots = [ProjectLocation::find(engine, ctx, directory)?.root];
    let subject = match &above {
        Some(session) => RuleScope::Session { session, agent: None },
        None => RuleScope::Directory { directory, roots: &roots, agent: None },
    };
    Ok(engine.permissions().check_command(ctx, subject, line)?)
}

/// Warns about a rule file of the project that cannot be used: operations that need a permission are refused
/// until it is corrected. The command itself needs none.
fn warn_unreadable_rules(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    directory: &Path,
) -> Result<(), CliError> {
    let roots = [ProjectLocation::find(engine, ctx, directory)?.root];
    let subject = RuleScope::Directory { directory, roots: &roots, agent: None };
    if let Err(error) = engine.permissions().rules().resolve(ctx, subject) {
        let (mark, error) = (apply_style(WARNING_STYLE, "turnstone:"), CliError::from(error));
        ui.print_note(&format!("{mark} {}", text::sanitize_line(&error.to_string())));
        if let Some(hint) = error.hint() {
            ui.print_hint(&hint);
        }
    }
    Ok(())
}

/// Warns about limits of undo before the command runs.
fn warn_undo_limits(ui: &mut Ui, engine: &Engine, session: &Session, execution: &CommandExecution) {
    let mark = apply_style(WARNING_STYLE, "turnstone:");
    if execution.call.is_over_budget() {
        ui.print_note(&format!("{mark} no space for undo data: this command cannot be undone"));
    } else if !execution.call.is_covered() {
        let place = text::sanitize_line(&session.directory);
        ui.print_note(&format!("{mark} undo is not available in {place}; the command runs anyway"));
        let access = engine.snapshots().open_for_session(session, execution.began());
        if let Ok(SnapshotAccess::Refused(error)) = access
            && let Some(hint) = hint_for_snapshot_error(&error)
        {
            ui.print_hint(&hint);
        }
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

/// Names the files whose changes did not fit and so cannot be undone.
fn warn_missing_space(ui: &mut Ui, closed: Option<&ClosedCall>) {
    let Some(closed) = closed else { return };
    let mark = apply_style(WARNING_STYLE, "turnstone:");
    if closed.is_pending {
        ui.print_note(&format!(
            "{mark} no space left: what the command changed is not recorded yet and cannot be undone"
        ));
        ui.print_hint(
            "free some disk space; the next Turnstone command then records the changes, \
             and `turnstone status` shows what is pending",
        );
    }
    let no_space = |change: &&FileChange| {
        let reason = change.after.uncovered_reason();
        matches!(reason, Some(UncoveredReason::NoSpace | UncoveredReason::OverBudget))
    };
    let lost: Vec<&FileChange> = closed.changes.iter().filter(no_space).collect();
    for change in lost.iter().take(MAX_NAMED_FILES) {
        let path = text::sanitize_line(&change.path.to_string());
        ui.print_note(&format!("{mark} no space left for {path}: its change cannot be undone"));
    }
    if lost.len() > MAX_NAMED_FILES {
        let more = number_format::format_counted(lost.len() - MAX_NAMED_FILES, "more file");
        ui.print_note(&format!("{mark} and {more}"));
    }
    if !lost.is_empty() {
        ui.print_hint("`turnstone log` lists all files of the turn; `turnstone snapshot du` shows the disk usage");
    }
    closed.other_roots.iter().for_each(|other| warn_missing_space(ui, Some(other)));
}

/// Prints the number of changed files on a terminal.
fn print_change_count(ui: &mut Ui, closed: Option<&ClosedCall>) {
    let Some(closed) =
        closed.filter(|closed| ui.is_stderr_terminal() && !closed.changes.is_empty())
    else {
        return;
    };
    let is_directory = |change: &&FileChange| change.is_directory_only();
    let directories = closed.changes.iter().filter(is_directory).count();
    let files = match closed.changes.len() - directories {
        0 => number_format::format_counted(directories, "directory"),
        files => number_format::format_counted(files, "file"),
    };
    ui.print_dim_note(&format!("turnstone: {files} changed; `turnstone undo` undoes this"));
}
