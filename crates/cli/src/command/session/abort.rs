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

/// How long the end of a turn is waited for: so many times, so long apart. A command gets five
/// seconds between the request to end and its end.
const MAX_POLLS: u32 = 200;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// End the turn that a session runs, whichever process runs it
///
/// Whoever runs it is told and ends its command; what that changed until then is known and can be
/// undone. Prompts that wait stay. Waits until the turn has ended; ends with 4 if it does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session abort ses_e21d")]
pub(crate) struct AbortArgs {
    /// The session: its id, or a beginning no other id has
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
        (None, _) => ui.print_note("no turn was running"),
        (Some(turn), Some(state)) => ui.print_note(&format!("turn {turn} is {}", state.as_str())),
        (Some(turn), None) => {
            ui.print_note(&format!("turn {turn} was asked to end and has not ended yet"));
            return Ok(ProgramExit::Conflict);
        }
    }
    Ok(ProgramExit::Ok)
}

/// Waits for a turn to end; nothing if it takes too long.
fn wait_until_ended(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    turn: &TurnId,
) -> Result<Option<TurnState>, CliError> {
    for _ in 0..MAX_POLLS {
        // The one that runs it may die instead of ending it.
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
