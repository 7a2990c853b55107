//! `turnstone fork`

use serde_json::{Value, json};
use turnstone_core::id::MessageId;
use turnstone_core::model::Session;
use turnstone_core::wire;
use turnstone_engine::{Engine, ForkedWorktree, NewWorktree};
use turnstone_store::Context;

use crate::app::App;
use crate::choice;
use crate::command::worktree::refused;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::point;
use crate::reference::Prefix;
use crate::text;
use crate::ui::{NAME, Ui, paint};

/// Copy a session, up to a message or as far as it stands, into one of its own
///
/// The copy depends on nothing of the original: deleting or undoing that changes nothing in it. In
/// the same files a turn that is taken back in one of the two is taken back in the other. With
/// --worktree the copy gets a checkout of its own that holds the files as they were at that
/// point, and the two are apart. Prints the id of the copy.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone fork\n  \
                        turnstone fork ses_e21d --at trn_0197c2 --worktree=other-way")]
pub(crate) struct ForkArgs {
    /// The session [default: the newest of this directory]
    #[arg(value_name = "ID")]
    session: Option<Prefix>,

    /// Copy what is before this message; a turn stands for its prompt
    #[arg(long, value_name = "MESSAGE")]
    at: Option<String>,

    /// Put the copy into a worktree of its own; without a name, two words are drawn
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    worktree: Option<String>,
}

/// Copies.
///
/// # Errors
///
/// There is no such message; or no worktree can be made, or no capture holds the files of it.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &ForkArgs) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    choice::settle(ui, &engine, &ctx);
    let session = choice::session(app, &engine, &ctx, args.session.as_ref())?;
    let at = args.at.as_ref().map(|typed| point::find_message(&engine, &ctx, &session, typed));
    let at = at.transpose()?;
    match &args.worktree {
        None => in_place(ui, &engine, &ctx, &session, at.as_ref()),
        Some(name) => apart(ui, &engine, &ctx, &session, at.as_ref(), name),
    }
}

fn in_place(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    at: Option<&MessageId>,
) -> Result<Exit, CliError> {
    let copy = engine.fork(ctx, &session.id, at)?;
    if ui.wants_json() {
        ui.json(&json!({ "session": info(engine, ctx, &copy)?, "origin": copy.origin }))?;
        return Ok(Exit::Ok);
    }
    ui.line(copy.id.as_str())?;
    tell(ui, session, &copy);
    Ok(Exit::Ok)
}

fn apart(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    at: Option<&MessageId>,
    name: &str,
) -> Result<Exit, CliError> {
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    let new = NewWorktree { name, ..NewWorktree::default() };
    let forked = ui.busy("copying the files of that point", || {
        engine.fork_into_worktree(ctx, &session.id, at, &new)
    });
    let ForkedWorktree { session: copy, worktree, report } = forked.map_err(refused)?;
    if ui.wants_json() {
        ui.json(&json!({
            "session": info(engine, ctx, &copy)?, "origin": copy.origin, "worktree": worktree,
            "restored": report.restored, "removed": report.removed,
            "not_covered": report.not_covered,
        }))?;
        return Ok(Exit::Ok);
    }
    ui.line(copy.id.as_str())?;
    tell(ui, session, &copy);
    let directory = text::clean_line(&copy.directory);
    let differ = figure::counted(report.restored.len() + report.removed.len(), "file");
    ui.note(&format!("its files are in {directory}; {differ} unlike the commit there"));
    if !report.not_covered.is_empty() {
        let count = figure::counted(report.not_covered.len(), "path");
        ui.note(&format!("{count} not covered (ignored or too large): they are not there"));
    }
    ui.hint(&format!("`cd {directory}`, and go on there"));
    Ok(Exit::Ok)
}

fn info(engine: &Engine, ctx: &Context, copy: &Session) -> Result<Value, CliError> {
    let read = |r: &turnstone_store::Reader<'_>| r.session_usage(&copy.id);
    Ok(wire::session_info(copy, engine.store().read(ctx, read)?))
}

fn tell(ui: &mut Ui, from: &Session, copy: &Session) {
    let title = text::clean_line(&copy.title);
    ui.note(&format!("forked {} as {title}", paint(NAME, &from.id)));
}
