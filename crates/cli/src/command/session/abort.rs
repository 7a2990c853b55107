//! `turnstone session abort`

use std::time::Duration;

use serde_json::json;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::turn::TurnState;
use turnstone_engine::{AbortOutcome, Engine};
use turnstone_store::Context;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::ui::Ui;

/// Polls for the end of the turn: a command gets five seconds to end.
const MAX_POLLS: u32 = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Abort the running turn of a session
///
/// Works from any terminal: the process that runs the turn ends its command. Changes made so far are
/// recorded and can be undone. Queued prompts stay queued. Waits until the turn has ended, and exits with
/// 4 if it does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session abort ses_e21d")]
pub(crate) struct AbortArgs {
    /// Session ID or unique prefix
    #[arg(value_name = "ID")]
    session: IdPrefix,
}

pub(super) fn run(ui: &mut Ui, app: &CliApp, args: &AbortArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let id = args.session.resolve_session(engine.store(), &ctx)?;
    let (turn, state) = match engine.turns().aborts().request(&ctx, &id)? {
        AbortOutcome::NoOpenTurn => (None, None),
        AbortOutcome::Ended(turn) => (Some(turn), Some(TurnState::Aborted)),
        AbortOutcome::Requested(turn) => {
            let state = wait_until_ended(&engine, &ctx, &id, &turn)?;
            (Some(turn), state)
        }
    };
    if ui.wants_json() {
        let word = state.map(TurnState::as_str);
        ui.print_json(&json!({ "session": id, "turn": turn, "state": word }))?;
    }
    match (turn, state) {
        (None, _) => ui.print_note("no running turn"),
        (Some(turn), Some(state)) => {
            ui.print_note(&format!("turn {turn} has ended: {}", state.as_str()))
        }
        (Some(turn), None) => {
            ui.print_note(&format!("turn {turn} has been asked to stop but is still running"));
            return Ok(ProgramExit::Conflict);
        }
    }
    Ok(ProgramExit::Ok)
}

/// Waits for a turn to end; `None` on timeout.
fn wait_until_ended(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    turn: &TurnId,
) -> Result<Option<TurnState>, CliError> {
    for _ in 0..MAX_POLLS {
        // The process that runs the turn may die without ending it.
        engine.store().recover_turns(ctx)?;
        let turns = engine.store().read(ctx, |r| r.turns().list(session))?;
        let found = turns.into_iter().find(|row| row.id == *turn).map(|row| row.state);
        if let Some(state) = found.filter(|state| !state.is_open()) {
            return Ok(Some(state));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(None)
}
