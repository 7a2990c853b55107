//! Both commands: resolve session and turns, plan, apply, print the report.

use std::path::{Path, PathBuf};

use turnstone_core::model::Session;
use turnstone_core::rel_path::RelPath;
use turnstone_engine::{Engine, SnapshotAccess, UndoAspect, UndoOptions, UndoPlan, UndoTarget};
use turnstone_store::Context;

use super::undo_report;
use crate::app::CliApp;
use crate::command::snapshot::resolve_paths;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::session_lookup;
use crate::text;
use crate::ui::Ui;

/// Maximum width of a prompt in messages.
const MAX_PROMPT_WIDTH: usize = 60;

/// Undo exactly what a turn did, and nothing else
///
/// Without TURN, undoes the newest turn of the newest session of this directory. Later changes by you or
/// other agents are kept: text is merged; other files are skipped and listed, and the command exits with
/// 4. If no file could be undone, the conversation does not change either. Overwritten content is saved
/// first, and `turnstone redo` restores it. Git commits are never changed. Several turns, also of
/// different sessions, are undone in one step.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone undo --dry-run\n  \
                        turnstone undo trn_0197c2 --path src")]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    what: TurnSelectionArgs,
}

/// Redo what was undone
///
/// Without TURN, reverses the newest undo. Later changes are kept, as with `undo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone redo --dry-run\n  turnstone redo")]
pub(crate) struct RedoArgs {
    #[command(flatten)]
    what: TurnSelectionArgs,
}

/// Arguments of both commands.
#[derive(Debug, clap::Args)]
struct TurnSelectionArgs {
    /// Turn IDs or unique prefixes
    #[arg(value_name = "TURN")]
    turns: Vec<IdPrefix>,

    /// Change only files, not the conversation
    #[arg(long, conflicts_with = "conversation")]
    files: bool,

    /// Change only the conversation, not the files
    #[arg(long)]
    conversation: bool,

    /// Only files that a tool named before writing, not files that merely changed while it ran
    #[arg(long)]
    named_only: bool,

    /// Only this file or directory; can be repeated
    #[arg(long = "path", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Show what would change and exit
    #[arg(long)]
    dry_run: bool,

    /// Session ID or unique prefix [default: the newest session of this directory]
    #[arg(long, value_name = "ID")]
    session: Option<IdPrefix>,
}

/// Undo or redo.
#[derive(Clone, Copy)]
enum UndoDirection {
    Undo,
    Redo,
}

/// Undoes turns.
///
/// # Errors
///
/// There is nothing to undo, the session is busy, or recorded data cannot be read.
pub(crate) fn undo(ui: &mut Ui, app: &CliApp, args: &UndoArgs) -> Result<ProgramExit, CliError> {
    undo_or_redo(ui, app, &args.what, UndoDirection::Undo)
}

/// Redoes turns.
///
/// # Errors
///
/// As [`undo`].
pub(crate) fn redo(ui: &mut Ui, app: &CliApp, args: &RedoArgs) -> Result<ProgramExit, CliError> {
    undo_or_redo(ui, app, &args.what, UndoDirection::Redo)
}

fn undo_or_redo(
    ui: &mut Ui,
    app: &CliApp,
    args: &TurnSelectionArgs,
    direction: UndoDirection,
) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let (session, which, mut options) = resolve_target(app, &engine, &ctx, args)?;
    options.paths = resolve_path_filters(app, &engine, &ctx, &session, &args.paths)?;
    let plan = match direction {
        UndoDirection::Undo => engine.history().plan_undo(&ctx, &session.id, &which, &options)?,
        UndoDirection::Redo => engine.history().plan_redo(&ctx, &session.id, &which, &options)?,
    };
    print_turns(ui, &engine, &ctx, &plan)?;
    warn_running_commands(ui, &engine, &ctx, &plan)?;
    let shown = if args.dry_run {
        undo_report::UndoResult::predicted(&plan)
    } else {
        undo_report::UndoResult::applied(&plan, engine.history().apply(&app.context(), &plan)?)
    };
    let hints = undo_report::ConflictHints::collect(&engine, &ctx, &plan)?;
    let exit = undo_report::print_result(ui, &shown, &hints)?;
    if !args.dry_run {
        app.run_maintenance(&engine);
    }
    Ok(exit)
}

/// Resolves session, turns and options.
fn resolve_target(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    args: &TurnSelectionArgs,
) -> Result<(Session, UndoTarget, UndoOptions), CliError> {
    let named = match &args.session {
        Some(prefix) => {
            Some(session_lookup::resolve_session_or_newest(app, engine, ctx, Some(prefix))?)
        }
        None => None,
    };
    let mut turns = Vec::new();
    for prefix in &args.turns {
        // Further turns may belong to other sessions.
        let wanted = named.as_ref().filter(|_| turns.is_empty());
        turns.push(session_lookup::resolve_turn(app, engine, ctx, wanted, prefix)?);
    }
    let scope = match (args.files, args.conversation) {
        (true, _) => UndoAspect::Files,
        (false, true) => UndoAspect::Conversation,
        (false, false) => UndoAspect::Both,
    };
    let options = |also| UndoOptions {
        scope,
        named_only: args.named_only,
        other_turns: also,
        ..UndoOptions::default()
    };
    if turns.is_empty() {
        let session = match named {
            Some(session) => session,
            None => session_lookup::resolve_session_or_newest(app, engine, ctx, None)?,
        };
        return Ok((session, UndoTarget::Last, options(Vec::new())));
    }
    let (id, first) = turns.remove(0);
    let session = engine.store().read(ctx, |r| r.sessions().get(&id))?;
    Ok((session, UndoTarget::Turn(first), options(turns)))
}

/// Resolves paths relative to the root of the session.
fn resolve_path_filters(
    app: &CliApp,
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
    let root = match engine.snapshots().access(session, ctx.now)? {
        SnapshotAccess::Available(handle) => handle.location().root.clone(),
        SnapshotAccess::Refused(_) => Path::new(&session.directory).to_owned(),
    };
    Ok(resolve_paths(&root, &here, typed)?.into_iter().flatten().collect())
}

fn print_turns(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    plan: &UndoPlan,
) -> Result<(), CliError> {
    let verb = undo_report::progress_verb(plan.kind);
    let own = plan.turns.iter().map(|turn| (&plan.session, turn));
    for (session, turn) in own.chain(plan.also.iter().map(|(session, turn)| (session, turn))) {
        let prompt = crate::command::log::find_turn_prompt(engine, ctx, session, turn)?;
        let prompt = text::truncate_to_width(
            prompt.as_deref().unwrap_or("abandoned turn"),
            MAX_PROMPT_WIDTH,
        );
        ui.print_dim_note(&format!("{verb}: {prompt} ({turn})"));
    }
    Ok(())
}

/// Warns if a command is running in the same root: it sees the files change.
fn warn_running_commands(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    plan: &UndoPlan,
) -> Result<(), CliError> {
    for root in &plan.roots {
        let open =
            engine.store().read(ctx, |r| r.change_sets().list_open(Some(&root.root.store)))?;
        for row in open {
            let session = row.set.session;
            ui.print_note(&format!(
                "note: session {session} is running a command in this directory"
            ));
        }
    }
    Ok(())
}
