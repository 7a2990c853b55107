//! `turnstone jump`

use turnstone_core::operation::HeadTarget;
use turnstone_engine::{Engine, UndoAspect, UndoOptions, UndoPlan};
use turnstone_store::Context;

use crate::app::CliApp;
use crate::command::undo::{UndoHints, UndoResult, print_operation};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::point_lookup;
use crate::session_lookup;
use crate::text;
use crate::ui::Ui;

/// Go to an earlier or later point of a session
///
/// POINT is a checkpoint, an operation or a turn. TURN means the end of the turn, `before:TURN` its start;
/// `@2` is the second newest turn. `turnstone log --all` lists all points, those on abandoned branches
/// included. Turns after the point are undone, and turns before it are redone. Your own changes stay, as
/// with `undo`. All overwritten content is saved first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone jump before:trn_0197c2 --dry-run\n  \
                        turnstone jump \"before the rewrite\" --files")]
pub(crate) struct JumpArgs {
    /// Checkpoint, turn, `before:TURN` or operation
    #[arg(value_name = "POINT")]
    point: String,

    /// Change only files, not the conversation
    #[arg(long, conflicts_with = "conversation")]
    files: bool,

    /// Change only the conversation, not the files
    #[arg(long)]
    conversation: bool,

    /// Show what would change and exit
    #[arg(long)]
    dry_run: bool,

    /// Session ID or unique prefix [default: the newest session of this directory]
    #[arg(long, value_name = "ID")]
    session: Option<IdPrefix>,
}

/// Jumps to a point.
///
/// # Errors
///
/// There is no such point, the session is busy, or recorded data cannot be read.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &JumpArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let wanted = args.session.as_ref();
    let (session, point) =
        session_lookup::resolve_session_of_point(app, &engine, &ctx, wanted, &args.point)?;
    let point = point_lookup::resolve_point(&engine, &ctx, &session, &point)?;
    let scope = match (args.files, args.conversation) {
        (true, _) => UndoAspect::Files,
        (false, true) => UndoAspect::Conversation,
        (false, false) => UndoAspect::Both,
    };
    let options = UndoOptions { scope, ..UndoOptions::default() };
    let plan = engine.history().plan_jump(&ctx, &session.id, &point, &options)?;
    let newest = newest_turn(&engine, &ctx, &plan)?;
    let shown = match args.dry_run {
        true => {
            engine.history().check(&ctx, &plan)?;
            UndoResult::predicted(&plan, scope)
        }
        false => UndoResult::applied(&plan, scope, engine.history().apply(&app.context(), &plan)?),
    };
    let hints = UndoHints::collect(app, &engine, &ctx, &plan)?;
    let exit = print_operation(ui, &shown, &hints)?;
    print_head_position(ui, &plan, args.dry_run);
    if let Some(turn) = newest.filter(|_| !args.dry_run) {
        ui.print_hint(&format!("`turnstone jump {turn}` returns to the newest turn"));
    }
    Ok(exit)
}

/// The newest turn of the current branch, unless it is the target of the jump.
fn newest_turn(
    engine: &Engine,
    ctx: &Context,
    plan: &UndoPlan,
) -> Result<Option<String>, CliError> {
    let turns = engine.store().read(ctx, |r| r.turns().list(&plan.session))?;
    let newest = turns.into_iter().rfind(|turn| !turn.hidden && !turn.state.is_open());
    let is_back = !matches!(plan.head, HeadTarget::Tip);
    Ok(newest.filter(|_| is_back).map(|turn| turn.id.to_string()))
}

/// Prints the new position in the conversation.
fn print_head_position(ui: &mut Ui, plan: &UndoPlan, dry_run: bool) {
    let verb = if dry_run { "would be" } else { "is now" };
    match &plan.head {
        HeadTarget::Stay => {}
        HeadTarget::Tip => ui.print_note(&format!("the conversation {verb} at its end")),
        HeadTarget::To(head) => {
            let message = text::sanitize_line(head.message.as_str());
            ui.print_note(&format!("the conversation {verb} before {message}"));
        }
    }
    if plan.switch.is_some() {
        ui.print_note(&format!("it {verb} on a branch that a later prompt had abandoned"));
    }
}
