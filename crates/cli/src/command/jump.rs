//! `turnstone jump`

use turnstone_core::operation::HeadMove;
use turnstone_engine::{Engine, UndoOptions, UndoPlan, UndoScope};
use turnstone_store::Context;

use crate::app::CliApp;
use crate::command::undo::{ConflictHints, UndoResult, print_operation};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::point_lookup;
use crate::session_lookup;
use crate::text;
use crate::ui::Ui;

/// Go to any point a session has been at, back or forth
///
/// POINT is a checkpoint's name, a turn (after it; `before:TURN` for the moment before it) or an
/// operation, as `turnstone log --all` shows them, on a line that a later prompt left behind too.
/// What turns did after the point is taken back, what they had done then is brought back; what
/// people did stays, as with `undo`. Everything that is overwritten is kept first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone jump before:trn_0197c2 --dry-run\n  \
                        turnstone jump \"before the rewrite\" --files")]
pub(crate) struct JumpArgs {
    /// Where to: a checkpoint, a turn, `before:TURN`, or an operation
    #[arg(value_name = "POINT")]
    point: String,

    /// Only files; the conversation stays where it is
    #[arg(long, conflicts_with = "conversation")]
    files: bool,

    /// Only the conversation; files stay as they are
    #[arg(long)]
    conversation: bool,

    /// Print what would change, and stop
    #[arg(long)]
    dry_run: bool,

    /// The session [default: the newest of this directory]
    #[arg(long, value_name = "ID")]
    session: Option<IdPrefix>,
}

/// Goes there.
///
/// # Errors
///
/// There is no such point, the session is busy, or a fact could not be obtained.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &JumpArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let session =
        session_lookup::resolve_session_or_newest(app, &engine, &ctx, args.session.as_ref())?;
    let point = point_lookup::resolve_point(&engine, &ctx, &session, &args.point)?;
    let scope = match (args.files, args.conversation) {
        (true, _) => UndoScope::Files,
        (false, true) => UndoScope::Conversation,
        (false, false) => UndoScope::Both,
    };
    let options = UndoOptions { scope, ..UndoOptions::default() };
    let plan = engine.history().plan_jump(&ctx, &session.id, &point, &options)?;
    let newest = newest_turn(&engine, &ctx, &plan)?;
    let shown = match args.dry_run {
        true => UndoResult::predicted(&plan),
        false => UndoResult::applied(&plan, engine.history().apply(&app.context(), &plan)?),
    };
    let hints = ConflictHints::collect(&engine, &ctx, &plan)?;
    let exit = print_operation(ui, &shown, &hints)?;
    print_head_position(ui, &plan, args.dry_run);
    if let Some(turn) = newest.filter(|_| !args.dry_run) {
        ui.print_hint(&format!("`turnstone jump {turn}` goes to the end of the newest turn"));
    }
    Ok(exit)
}

/// The newest turn that was not left behind, if it is not the one the jump goes to.
fn newest_turn(
    engine: &Engine,
    ctx: &Context,
    plan: &UndoPlan,
) -> Result<Option<String>, CliError> {
    let turns = engine.store().read(ctx, |r| r.turns().list(&plan.session))?;
    let newest = turns.into_iter().rfind(|turn| !turn.hidden && !turn.state.is_open());
    let is_back = !matches!(plan.head, HeadMove::Tip);
    Ok(newest.filter(|_| is_back).map(|turn| turn.id.to_string()))
}

/// Says where the conversation stands.
fn print_head_position(ui: &mut Ui, plan: &UndoPlan, dry_run: bool) {
    let verb = if dry_run { "would stand" } else { "stands" };
    match &plan.head {
        HeadMove::Stay => {}
        HeadMove::Tip => ui.print_note(&format!("the conversation {verb} at its end")),
        HeadMove::To(head) => {
            let message = text::sanitize_line(head.message.as_str());
            ui.print_note(&format!("the conversation {verb} before {message}"));
        }
    }
    if plan.switch.is_some() {
        ui.print_note(&format!("it {verb} on the line that a later prompt had left behind"));
    }
}
