//! The two commands: which session, which turns, plan, apply, tell.

use std::path::{Path, PathBuf};

use turnstone_core::model::Session;
use turnstone_core::path::RelPath;
use turnstone_engine::{Cover, Engine, Scope, UndoOptions, UndoPlan, Which};
use turnstone_store::Context;

use super::show;
use crate::app::App;
use crate::choice;
use crate::command::snapshot::chosen;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reference::Prefix;
use crate::text;
use crate::ui::Ui;

/// Columns of a prompt that is named in passing.
const PROMPT: usize = 60;

/// Take back what a turn did, and nothing else
///
/// Without TURN the newest one of the newest session of this directory. What was changed since
/// stays: merged where it is text, otherwise the file is left alone, named, and the command ends
/// with 4; if no file at all could be taken back, the conversation stays as well. Everything that
/// is overwritten is kept first; `turnstone redo` brings it back. Commits are never touched. Several
/// turns, of several sessions too, are taken back in one step.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone undo --dry-run\n  \
                        turnstone undo trn_0197c2 --path src")]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    what: WhatArgs,
}

/// Bring back what undo took
///
/// The newest undo that still stands, or the turns that are named. What was changed since stays,
/// as with `undo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone redo --dry-run\n  turnstone redo")]
pub(crate) struct RedoArgs {
    #[command(flatten)]
    what: WhatArgs,
}

/// What both commands are told.
#[derive(Debug, clap::Args)]
struct WhatArgs {
    /// The turns: their ids, or beginnings no other turn has
    #[arg(value_name = "TURN")]
    turns: Vec<Prefix>,

    /// Only files; the conversation stays where it is
    #[arg(long, conflicts_with = "conversation")]
    files: bool,

    /// Only the conversation; files stay as they are
    #[arg(long)]
    conversation: bool,

    /// Only what a tool named before it wrote, nothing that was only seen changing meanwhile
    #[arg(long)]
    named_only: bool,

    /// Only this file or directory; may be repeated
    #[arg(long = "path", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Print what would change, and stop
    #[arg(long)]
    dry_run: bool,

    /// The session [default: the newest of this directory]
    #[arg(long, value_name = "ID")]
    session: Option<Prefix>,
}

/// Which way.
#[derive(Clone, Copy)]
enum Way {
    Back,
    Forth,
}

/// Takes turns back.
///
/// # Errors
///
/// There is nothing to take back, the session is busy, or a fact could not be obtained.
pub(crate) fn undo(ui: &mut Ui, app: &App, args: &UndoArgs) -> Result<Exit, CliError> {
    run(ui, app, &args.what, Way::Back)
}

/// Brings them back.
///
/// # Errors
///
/// As [`undo`].
pub(crate) fn redo(ui: &mut Ui, app: &App, args: &RedoArgs) -> Result<Exit, CliError> {
    run(ui, app, &args.what, Way::Forth)
}

fn run(ui: &mut Ui, app: &App, args: &WhatArgs, way: Way) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    choice::settle(ui, &engine, &ctx);
    let (session, which, mut options) = meant(app, &engine, &ctx, args)?;
    options.paths = paths(app, &engine, &ctx, &session, &args.paths)?;
    let plan = match way {
        Way::Back => engine.plan_undo(&ctx, &session.id, &which, &options)?,
        Way::Forth => engine.plan_redo(&ctx, &session.id, &which, &options)?,
    };
    tell_turns(ui, &engine, &ctx, &plan)?;
    tell_running(ui, &engine, &ctx, &plan)?;
    let shown = if args.dry_run {
        show::Shown::foreseen(&plan)
    } else {
        show::Shown::done(&plan, engine.apply(&app.context(), &plan)?)
    };
    let hints = show::Hints::gather(&engine, &ctx, &plan)?;
    show::print(ui, &shown, &hints)
}

/// The session, its turn, and what goes with it.
fn meant(
    app: &App,
    engine: &Engine,
    ctx: &Context,
    args: &WhatArgs,
) -> Result<(Session, Which, UndoOptions), CliError> {
    let named = match &args.session {
        Some(prefix) => Some(choice::session(app, engine, ctx, Some(prefix))?),
        None => None,
    };
    let mut turns = Vec::new();
    for prefix in &args.turns {
        // A turn of another session may be named as well, to go with the first one.
        let wanted = named.as_ref().filter(|_| turns.is_empty());
        turns.push(choice::turn(app, engine, ctx, wanted, prefix)?);
    }
    let scope = match (args.files, args.conversation) {
        (true, _) => Scope::Files,
        (false, true) => Scope::Conversation,
        (false, false) => Scope::Both,
    };
    let options =
        |also| UndoOptions { scope, named_only: args.named_only, also, ..UndoOptions::default() };
    if turns.is_empty() {
        let session = match named {
            Some(session) => session,
            None => choice::session(app, engine, ctx, None)?,
        };
        return Ok((session, Which::Last, options(Vec::new())));
    }
    let (id, first) = turns.remove(0);
    let session = engine.store().read(ctx, |r| r.get_session(&id))?;
    Ok((session, Which::Turn(first), options(turns)))
}

/// The paths as the root of the session names them.
fn paths(
    app: &App,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    typed: &[PathBuf],
) -> Result<Vec<RelPath>, CliError> {
    if typed.is_empty() {
        return Ok(Vec::new());
    }
    let here = app.directory()?;
    let here = fs_err::canonicalize(here).unwrap_or_else(|_| here.to_owned());
    let root = match engine.cover(session, ctx.now)? {
        Cover::Vault(vault) => vault.place().root.clone(),
        Cover::Refused(_) => Path::new(&session.directory).to_owned(),
    };
    Ok(chosen(&root, &here, typed)?.into_iter().flatten().collect())
}

fn tell_turns(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    plan: &UndoPlan,
) -> Result<(), CliError> {
    let words = show::verb(plan.kind);
    let own = plan.turns.iter().map(|turn| (&plan.session, turn));
    for (session, turn) in own.chain(plan.also.iter().map(|(session, turn)| (session, turn))) {
        let prompt = crate::command::log::prompt(engine, ctx, session, turn)?;
        let prompt = text::cut(prompt.as_deref().unwrap_or("a hidden turn"), PROMPT);
        ui.aside(&format!("{words}: {prompt} ({turn})"));
    }
    Ok(())
}

/// Whoever works in the same root sees these files change under its hands.
fn tell_running(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    plan: &UndoPlan,
) -> Result<(), CliError> {
    for root in &plan.roots {
        let open = engine.store().read(ctx, |r| r.open_changes(Some(&root.root.store)))?;
        for row in open {
            let session = row.set.session;
            ui.note(&format!("note: a command of session {session} runs in these files meanwhile"));
        }
    }
    Ok(())
}
