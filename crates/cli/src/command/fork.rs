//! `turnstone fork`

use serde_json::{Value, json};
use turnstone_core::id::MessageId;
use turnstone_core::model::{ForkOrigin, Session};
use turnstone_core::wire;
use turnstone_engine::{Engine, ForkedWorktree, WorktreeRequest};
use turnstone_store::Context;

use crate::app::CliApp;
use crate::command::worktree::worktree_error;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::point_lookup;
use crate::session_lookup;
use crate::text;
use crate::ui::{ID_STYLE, Ui, apply_style};

/// Copy a session, whole or up to a message or turn
///
/// Deleting the original does not affect the copy. Without --worktree, both sessions work on the same
/// files, so undoing a turn in one undoes it in the other. With --worktree, the copy gets its own git
/// worktree with the files as they were at that point. Prints the ID of the copy.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone fork\n  \
                        turnstone fork ses_e21d --at trn_0197c2 --worktree=other-way")]
pub(crate) struct ForkArgs {
    /// Session ID or unique prefix [default: the newest session of this directory]
    #[arg(value_name = "ID")]
    session: Option<IdPrefix>,

    /// Copy only what comes before this message, or before the prompt of this turn
    #[arg(long, value_name = "MESSAGE|TURN")]
    at: Option<String>,

    /// Create a worktree for the copy; without NAME, a random name is generated
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    worktree: Option<String>,
}

/// Forks a session.
///
/// # Errors
///
/// There is no such message, no worktree can be created, or no capture has its files.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &ForkArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let wanted = args.session.as_ref();
    let (session, at) = match &args.at {
        None => (session_lookup::resolve_session_or_newest(app, &engine, &ctx, wanted)?, None),
        Some(typed) => {
            let (session, point) =
                session_lookup::resolve_session_of_point(app, &engine, &ctx, wanted, typed)?;
            let at = point_lookup::resolve_message(&engine, &ctx, &session, &point)?;
            (session, Some(at))
        }
    };
    match &args.worktree {
        None => fork_in_place(ui, &engine, &ctx, &session, at.as_ref()),
        Some(name) => fork_into_worktree(ui, &engine, &ctx, &session, at.as_ref(), name),
    }
}

fn fork_in_place(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    at: Option<&MessageId>,
) -> Result<ProgramExit, CliError> {
    let copy = engine.history().forks().fork_session(ctx, &session.id, at)?;
    if ui.wants_json() {
        ui.print_json(&json!({
            "session": session_json(engine, ctx, &copy)?,
            "origin": copy.origin.as_ref().map(origin_json),
        }))?;
        return Ok(ProgramExit::Ok);
    }
    ui.print_line(copy.id.as_str())?;
    print_fork(ui, session, &copy);
    Ok(ProgramExit::Ok)
}

fn fork_into_worktree(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    at: Option<&MessageId>,
    name: &str,
) -> Result<ProgramExit, CliError> {
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    let new = WorktreeRequest { name, ..WorktreeRequest::default() };
    let forked = ui.with_spinner("restoring the files of that point", || {
        engine.history().forks().fork_into_worktree(ctx, &session.id, at, &new)
    });
    let ForkedWorktree { session: copy, worktree, report } = forked.map_err(worktree_error)?;
    if ui.wants_json() {
        ui.print_json(&json!({
            "session": session_json(engine, ctx, &copy)?, "worktree": worktree,
            "origin": copy.origin.as_ref().map(origin_json),
            "restored": report.restored, "removed": report.removed,
            "not_covered": report.not_covered,
        }))?;
        return Ok(ProgramExit::Ok);
    }
    ui.print_line(copy.id.as_str())?;
    print_fork(ui, session, &copy);
    let directory = text::sanitize_line(&copy.directory);
    let differ = match report.restored.len() + report.removed.len() {
        1 => "1 file differs from HEAD".to_owned(),
        count => format!("{} differ from HEAD", number_format::format_counted(count, "file")),
    };
    ui.print_note(&format!("worktree {directory}: {differ}"));
    if !report.not_covered.is_empty() {
        let count = number_format::format_counted(report.not_covered.len(), "path");
        ui.print_note(&format!("{count} not recorded (ignored or too large) and not restored"));
    }
    ui.print_hint(&format!("`cd {directory}` to continue there"));
    Ok(ProgramExit::Ok)
}

fn session_json(engine: &Engine, ctx: &Context, copy: &Session) -> Result<Value, CliError> {
    let read = |r: &turnstone_store::ReadTx<'_>| r.sessions().usage(&copy.id);
    Ok(wire::session_info(copy, engine.store().read(ctx, read)?))
}

/// The origin of a fork, with the keys of native objects.
pub(crate) fn origin_json(origin: &ForkOrigin) -> Value {
    json!({ "session": origin.session, "message": origin.message, "seq": origin.seq })
}

fn print_fork(ui: &mut Ui, from: &Session, copy: &Session) {
    let title = text::sanitize_line(&copy.title);
    ui.print_note(&format!("forked {} as \"{title}\"", apply_style(ID_STYLE, &from.id)));
}
