//! `turnstone exec`

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use turnstone_core::id::SessionId;
use turnstone_core::model::{Session, Status};
use turnstone_engine::{Closed, CommandEnd, Engine, Execution, NewSession, NewWorktree, Ran};
use turnstone_store::Context;

use super::attend::{self, NOT_BEGUN};
use super::line::line;
use crate::app::App;
use crate::choice;
use crate::command::worktree::refused;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::place::Place;
use crate::reference::Prefix;
use crate::text;
use crate::ui::{Ui, WARN, paint};

/// The longest title made of a command line.
const TITLE: usize = 80;

/// Run any command as a turn that can be undone
///
/// The directory is captured before and after; what changed between belongs to the turn, and
/// `turnstone undo` takes exactly that back. Input, output, signals and the terminal are the
/// command's own, and so is the exit code: 128 + n if a signal ended it, 127 or 126 if it could
/// not be started, 125 if turnstone could not begin. If turnstone is killed the command is ended,
/// and the next turnstone finds out what it changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone exec -- my-agent \"mend the tide table\"\n  \
                        turnstone exec --session ses_e21d -- make fmt\n  \
                        turnstone exec --worktree=other-way -- my-agent")]
pub(crate) struct ExecArgs {
    /// Go on with this session instead of beginning one: its id, or a beginning no other id has
    #[arg(long, value_name = "ID")]
    session: Option<Prefix>,

    /// The title of the session [default: the command]
    #[arg(long, value_name = "TITLE", conflicts_with = "session")]
    title: Option<String>,

    /// Run it in a worktree of its own, made if there is none of that name; without a name, two
    /// words are drawn
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", conflicts_with = "session")]
    worktree: Option<String>,

    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, num_args = 1.., trailing_var_arg = true)]
    #[arg(allow_hyphen_values = true, value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Runs the command; our own failures before it starts have a code of their own (R33).
///
/// # Errors
///
/// None: they are told here.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &ExecArgs) -> Result<Exit, CliError> {
    Ok(match execute(ui, app, args) {
        Ok(code) => Exit::Of(code),
        Err(error) => {
            ui.fail(&error);
            Exit::Of(NOT_BEGUN)
        }
    })
}

fn execute(ui: &mut Ui, app: &App, args: &ExecArgs) -> Result<u8, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    choice::settle(ui, &engine, &ctx);
    let line = line(&args.command);
    let place = match &args.worktree {
        Some(name) => worktree(ui, app, &engine, &ctx, name)?,
        None => app.directory()?.to_owned(),
    };
    let session = session(app, &engine, &ctx, args, &line, &place)?;
    let begin = || engine.begin_exec(&ctx, &session, &line);
    let mut execution = ui.busy("capturing the directory, so that undo works", begin)?;
    tell_limits(ui, &session, &execution);
    let Ran { end, code, left } =
        attend::run(app, &engine, &ctx, &mut execution, &place, &args.command)?;
    match &end {
        CommandEnd::NotStarted(why) | CommandEnd::Lost(why) => {
            ui.note(&format!("turnstone: {}", text::clean_line(why)));
        }
        CommandEnd::Exited { .. } => {}
    }
    if left > 0 {
        let count = figure::counted(left, "process");
        ui.note(&format!("turnstone: {count} left running; what they change is in no turn"));
    }
    let covered = execution.call.is_covered();
    let ended =
        ui.busy("looking what changed", || engine.end_exec(&app.context(), execution, &end));
    match ended {
        Ok(closed) => tell_changes(ui, closed.filter(|_| covered).as_ref()),
        // The command has run: its code is what a script wants. The books are closed later.
        Err(error) => {
            ui.fail(&error.into());
            ui.note("turnstone: the next turnstone here finds out what the command changed");
        }
    }
    Ok(u8::try_from(code & 0xff).unwrap_or(NOT_BEGUN))
}

/// The session the command belongs to: the one named, or a new one.
fn session(
    app: &App,
    engine: &Engine,
    ctx: &Context,
    args: &ExecArgs,
    line: &str,
    directory: &Path,
) -> Result<Session, CliError> {
    if let Some(prefix) = &args.session {
        let session = choice::session(app, engine, ctx, Some(prefix))?;
        let projects = engine.store().read(ctx, |r| r.projects())?;
        if !Place::find(&projects, directory).holds(&session) {
            let (id, home) = (&session.id, text::clean_line(&session.directory));
            return Err(CliError::Refused {
                what: format!("session {id} belongs to {home}, not to this directory"),
                hint: Some(format!("change to {home}, or leave --session out")),
            });
        }
        return Ok(session);
    }
    let title = args.title.clone().unwrap_or_else(|| text::cut(&text::clean_line(line), TITLE));
    let new = NewSession {
        title: Some(title),
        parent: parent(app, engine, ctx)?,
        ..NewSession::default()
    };
    Ok(engine.create_session(ctx, directory, &new)?)
}

/// The worktree of that name, or a new one.
fn worktree(
    ui: &mut Ui,
    app: &App,
    engine: &Engine,
    ctx: &Context,
    name: &str,
) -> Result<PathBuf, CliError> {
    let project = engine.open_project(ctx, app.directory()?)?.project.id;
    let listed = engine.list_worktrees(ctx, &project).map_err(refused)?;
    let known = listed.into_iter().find(|it| it.made && it.ready && it.name == name);
    let found = match known {
        Some(known) => known,
        None => {
            let name = Some(name.to_owned()).filter(|name| !name.is_empty());
            let new = NewWorktree { name, ..NewWorktree::default() };
            engine.create_worktree(ctx, &project, &new).map_err(refused)?
        }
    };
    let directory = text::clean_line(&found.directory.to_string_lossy());
    ui.aside(&format!("turnstone: in worktree {} ({directory})", found.name));
    Ok(found.directory)
}

/// The session whose command runs this one, while it does: the inner window then wins (R3).
fn parent(app: &App, engine: &Engine, ctx: &Context) -> Result<Option<SessionId>, CliError> {
    let Some(id) = app.session().and_then(|text| text.parse::<SessionId>().ok()) else {
        return Ok(None);
    };
    Ok(engine.store().read(ctx, |r| {
        let known = r.find_session(&id)?.is_some();
        let runs = known && !matches!(r.status(&id)?, Status::Idle);
        Ok(runs.then_some(id))
    })?)
}

/// Says what undo will not be able to do, before the command runs.
fn tell_limits(ui: &mut Ui, session: &Session, execution: &Execution) {
    let mark = paint(WARN, "turnstone:");
    if !execution.call.is_covered() {
        let place = text::clean_line(&session.directory);
        ui.note(&format!("{mark} no undo here: {place} is not captured, the command runs anyway"));
    }
    for beside in &execution.beside {
        let title = text::cut(&text::clean_line(&beside.title), TITLE);
        let other = &beside.session;
        ui.note(&format!(
            "{mark} another command runs here ({title}, {other}); files that both change can only \
             be undone together"
        ));
        ui.hint("to keep them apart: `turnstone exec --worktree -- COMMAND`");
    }
}

/// Says what can be undone, to a person who watches.
fn tell_changes(ui: &mut Ui, closed: Option<&Closed>) {
    let Some(closed) = closed.filter(|closed| ui.is_watched() && !closed.changes.is_empty()) else {
        return;
    };
    let files = figure::counted(closed.changes.len(), "file");
    ui.aside(&format!("turnstone: {files} changed; `turnstone undo` takes that back"));
}
