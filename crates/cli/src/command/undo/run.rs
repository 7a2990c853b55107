//! Both commands: resolve session and turns, plan, apply, print the report.

use std::path::{Path, PathBuf};

use serde_json::json;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::model::Session;
use turnstone_core::operation::OperationKind;
use turnstone_core::rel_path::RelPath;
use turnstone_engine::{
    Engine, EngineError, SnapshotAccess, UndoAspect, UndoOptions, UndoPlan, UndoTarget,
};
use turnstone_store::Context;

use super::recovered_operation::{RecoveredOperation, RepeatedRequest};
use super::undo_hints::UndoHints;
use super::undo_report::{self, OpenWindow};
use crate::app::CliApp;
use crate::command::snapshot::resolve_paths;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::session_lookup;
use crate::text;
use crate::turn_ref::TurnRef;
use crate::ui::Ui;

/// Maximum width of a prompt in messages.
const MAX_PROMPT_WIDTH: usize = 60;

/// Undo exactly what a turn did, and nothing else
///
/// Without TURN, undoes the newest turn of this project that is not undone yet, whichever session it belongs
/// to: repeated, it goes back turn by turn. A turn that is still running is named and left alone. Later
/// changes by you or other agents are kept: text is merged; other files are skipped and listed, and the
/// command exits with 4. If no file could be undone, the conversation does not change either. Overwritten
/// content is saved first, and `turnstone redo` restores it. Git commits are never changed. Several turns,
/// also of different sessions, are undone in one step.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone undo --dry-run\n  turnstone undo @2\n  \
                        turnstone undo --last 3\n  turnstone undo trn_0197c2 --path src")]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    what: TurnSelectionArgs,

    /// Undo the newest N turns that are not undone yet, in one step
    #[arg(long, value_name = "N", value_parser = parse_count)]
    #[arg(conflicts_with_all = ["turns", "session"])]
    last: Option<usize>,
}

/// Redo what was undone
///
/// Without TURN, reverses the newest undo in this project; repeated, it goes on to the undo before it. Later
/// changes are kept, as with `undo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone redo --dry-run\n  turnstone redo\n  \
                        turnstone redo @2\n  turnstone redo --last 3")]
pub(crate) struct RedoArgs {
    #[command(flatten)]
    what: TurnSelectionArgs,

    /// Reverse the newest N undos, one after the other
    #[arg(long, value_name = "N", value_parser = parse_count)]
    #[arg(conflicts_with_all = ["turns", "session", "dry_run"])]
    last: Option<usize>,
}

/// Parses how many turns are meant.
fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        Ok(_) | Err(_) => Err("a number of turns, at least 1".to_owned()),
    }
}

/// Arguments of both commands.
#[derive(Debug, clap::Args)]
struct TurnSelectionArgs {
    /// Turn IDs, unique prefixes, or `@N`: the Nth newest turn, as shown by `turnstone log`
    #[arg(value_name = "TURN")]
    turns: Vec<TurnRef>,

    /// Change only files, not the conversation
    #[arg(long, conflicts_with = "conversation")]
    files: bool,

    /// Change only the conversation, not the files
    #[arg(long)]
    conversation: bool,

    /// Only files that a tool named or a traced command wrote, not those that merely changed meanwhile
    #[arg(long)]
    named_only: bool,

    /// Only this file or directory; can be repeated
    #[arg(long = "path", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Show what would change and exit
    #[arg(long)]
    dry_run: bool,

    /// Only turns of this session: ID or unique prefix [default: all sessions of this project]
    #[arg(long, value_name = "ID")]
    session: Option<IdPrefix>,
}

/// What a command works on.
struct UndoCommandTarget {
    session: Session,
    target: UndoTarget,
    options: UndoOptions,
    /// Newer turns that have not ended.
    running: Vec<(SessionId, TurnId)>,
    /// Newer turns that changed nothing of their own.
    passed_over: Vec<(SessionId, TurnId)>,
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
    undo_or_redo(ui, app, &args.what, (UndoDirection::Undo, args.last.unwrap_or(1)))
}

/// Redoes turns.
///
/// # Errors
///
/// As [`undo`].
pub(crate) fn redo(ui: &mut Ui, app: &CliApp, args: &RedoArgs) -> Result<ProgramExit, CliError> {
    let mut exit = ProgramExit::Ok;
    for _ in 0..args.last.unwrap_or(1) {
        exit = undo_or_redo(ui, app, &args.what, (UndoDirection::Redo, 1))?;
        if exit != ProgramExit::Ok {
            break;
        }
    }
    Ok(exit)
}

fn undo_or_redo(
    ui: &mut Ui,
    app: &CliApp,
    args: &TurnSelectionArgs,
    (direction, count): (UndoDirection, usize),
) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let recovered = session_lookup::recover_and_report(ui, &engine, &ctx);
    if !args.dry_run
        && let Some(done) = find_finished(app, &engine, &ctx, args, (direction, &recovered))?
    {
        return done.print(ui, app, &engine, &ctx);
    }
    let request = resolve_request(app, &engine, &ctx, args, (direction, count))?;
    let UndoCommandTarget { session, target, mut options, running, passed_over } = request;
    options.paths = resolve_path_filters(app, &engine, &ctx, &session, &args.paths)?;
    let plan = match direction {
        UndoDirection::Undo => engine.history().plan_undo(&ctx, &session.id, &target, &options)?,
        UndoDirection::Redo => engine.history().plan_redo(&ctx, &session.id, &target, &options)?,
    };
    for (session, turn) in passed_over {
        ui.print_note(&format!(
            "note: turn {turn} (session {session}) is passed over: what changed while it ran was changed by \
             an undo or redo"
        ));
    }
    print_turns(ui, &engine, &ctx, &plan, &session.directory)?;
    let open_windows = warn_running_commands(ui, app, &engine, &ctx, &plan)?;
    warn_running_turns(ui, &running, &open_windows);
    let mut unrecorded = None;
    let shown = if args.dry_run {
        engine.history().check(&ctx, &plan)?;
        undo_report::UndoResult::predicted(&plan, options.scope)
    } else {
        let report = match engine.history().apply(&app.context(), &plan) {
            Err(EngineError::Unrecorded { report, source }) => {
                unrecorded = Some(EngineError::Unrecorded { report: report.clone(), source });
                *report
            }
            applied => applied?,
        };
        undo_report::UndoResult::applied(&plan, options.scope, report)
    };
    let project = json!({ "id": session.project, "directory": session.directory });
    let shown = shown.with_open_windows(open_windows).in_project(project);
    let hints = UndoHints::collect(app, &engine, &ctx, &plan)?;
    let exit = undo_report::print_result(ui, &shown, &hints)?;
    if let Some(error) = unrecorded {
        return Err(error.into());
    }
    if !args.dry_run {
        app.run_maintenance(&engine);
    }
    Ok(exit)
}

/// Finds what was asked for among the operations that recovery has just finished.
fn find_finished(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    args: &TurnSelectionArgs,
    (direction, recovered): (UndoDirection, &[OperationId]),
) -> Result<Option<RecoveredOperation>, CliError> {
    if recovered.is_empty() {
        return Ok(None);
    }
    let session = match &args.session {
        Some(prefix) => Some(prefix.resolve_session(engine.store(), ctx)?),
        None => None,
    };
    let mut turns = Vec::new();
    for turn in &args.turns {
        turns.push(session_lookup::resolve_turn(app, engine, ctx, None, turn)?.1);
    }
    let kind = match direction {
        UndoDirection::Undo => OperationKind::Undo,
        UndoDirection::Redo => OperationKind::Redo,
    };
    let wanted = RepeatedRequest { kind, session: session.as_ref(), turns: &turns };
    RecoveredOperation::find(app, engine, ctx, (recovered, &wanted))
}

/// Resolves session, turns and options.
fn resolve_request(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    args: &TurnSelectionArgs,
    (direction, count): (UndoDirection, usize),
) -> Result<UndoCommandTarget, CliError> {
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
    let options = |other_turns| UndoOptions {
        scope,
        named_only: args.named_only,
        other_turns,
        during_turn: true,
        ..UndoOptions::default()
    };
    let (mut running, mut passed_over) = (Vec::new(), Vec::new());
    let (id, target, other_turns) = if !turns.is_empty() {
        let (id, first) = turns.remove(0);
        (id, UndoTarget::Turn(first), turns)
    } else if let Some(session) = named {
        (session.id, UndoTarget::Last, Vec::new())
    } else {
        let checkout = session_lookup::resolve_checkout(app, engine, ctx)?;
        let all = engine.history().checkout_turns();
        match direction {
            UndoDirection::Undo => {
                let chosen = all.choose_undo(ctx, &checkout, count, scope)?;
                (running, passed_over) = (chosen.running, chosen.passed_over);
                (chosen.session, chosen.target, chosen.other_turns)
            }
            UndoDirection::Redo => {
                let session = all.choose_redo(ctx, &checkout)?;
                (session, UndoTarget::Last, Vec::new())
            }
        }
    };
    let session = engine.store().read(ctx, |r| r.sessions().get(&id))?;
    Ok(UndoCommandTarget { session, target, options: options(other_turns), running, passed_over })
}

/// Names turns that are still running and so were not chosen, unless their command was named already.
fn warn_running_turns(ui: &mut Ui, running: &[(SessionId, TurnId)], named: &[OpenWindow]) {
    for (session, turn) in running {
        if !named.iter().any(|window| window.turn == *turn) {
            ui.print_note(&format!(
                "note: turn {turn} (session {session}) is still running and stays as it is"
            ));
        }
    }
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
    let root = match engine.snapshots().open_for_session(session, ctx.now)? {
        SnapshotAccess::Available(handle) => handle.location().root.clone(),
        SnapshotAccess::Refused(_) => Path::new(&session.directory).to_owned(),
    };
    Ok(resolve_paths(&root, &here, typed)?.into_iter().flatten().collect())
}

/// Names the turns of a plan.
pub(super) fn print_turns(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    plan: &UndoPlan,
    directory: &str,
) -> Result<(), CliError> {
    let verb = undo_report::progress_verb(plan.kind);
    let directory = text::sanitize_line(directory);
    let own = plan.turns.iter().map(|turn| (&plan.session, turn));
    for (session, turn) in own.chain(plan.also.iter().map(|(session, turn)| (session, turn))) {
        let prompt = crate::command::log::find_turn_prompt(engine, ctx, session, turn)?;
        let prompt = text::truncate_to_width(
            prompt.as_deref().unwrap_or("abandoned turn"),
            MAX_PROMPT_WIDTH,
        );
        ui.print_dim_note(&format!("{verb} in {directory}: {prompt} ({turn})"));
    }
    Ok(())
}

/// Warns if a command is running in the same root: it sees the files change.
fn warn_running_commands(
    ui: &mut Ui,
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    plan: &UndoPlan,
) -> Result<Vec<OpenWindow>, CliError> {
    let mut windows = Vec::new();
    for root in &plan.roots {
        let open =
            engine.store().read(ctx, |r| r.change_sets().list_open(Some(&root.root.store)))?;
        for row in open {
            if row.continues.is_some() {
                let turn = row.set.turn;
                ui.print_note(&format!(
                    "note: processes that turn {turn} left running may write in this directory; \
                     their changes are recorded when they end"
                ));
                continue;
            }
            let (session, turn) = (row.set.session, row.set.turn);
            let enclosing = app.enclosing_session() == Some(session.as_str());
            ui.print_note(&match enclosing {
                true => format!(
                    "note: this runs inside the command of turn {turn} (session {session}); \
                     an undo of that turn leaves the files changed here alone"
                ),
                false => format!(
                    "note: turn {turn} (session {session}) is running a command in this directory"
                ),
            });
            windows.push(OpenWindow { session, turn, enclosing });
        }
    }
    Ok(windows)
}
