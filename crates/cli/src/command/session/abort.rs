//! `turnstone session abort`

use std::time::Duration;

use serde_json::json;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::turn::TurnState;
use turnstone_engine::{Abort, Engine};
use turnstone_store::Context;

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reference::Prefix;
use crate::ui::Ui;

/// How long the end of a turn is waited for: so many times, so long apart. A command gets five
/// seconds between the request to end and its end.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// End the turn that a session runs, whichever process runs it
///
/// Whoever runs it is told and ends its command; what that changed until then is known and can be
/// undone. Prompts that wait stay. Waits until the turn has ended; ends with 4 if it does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session abort ses_e21d")]
pub(crate) struct AbortArgs {
    /// The session: its id, or a beginning no other id has
    #[arg(value_name = "ID")]
    session: Prefix,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &AbortArgs) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    let id = args.session.session(engine.store(), &ctx)?;
    let (turn, state) = match engine.request_abort(&ctx, &id)? {
        Abort::Nothing => (None, None),
        Abort::Ended(turn) => (Some(turn), Some(TurnState::Aborted)),
        Abort::Asked(turn) => {
            let state = wait(&engine, &ctx, &id, &turn)?;
            (Some(turn), state)
        }
    };
    if ui.wants_json() {
        let word = state.map(TurnState::as_str);
        ui.json(&json!({ "session": id, "turn": turn, "state": word }))?;
    }
    match (turn, state) {
        (None, _) => ui.note("no turn was running"),
        (Some(turn), Some(state)) => ui.note(&format!("turn {turn} is {}", state.as_str())),
        (Some(turn), None) => {
            ui.note(&format!("turn {turn} was asked to end and has not ended yet"));
            return Ok(Exit::Conflict);
        }
    }
    Ok(Exit::Ok)
}

/// Waits for a turn to end; nothing if it takes too long.
fn wait(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    turn: &TurnId,
) -> Result<Option<TurnState>, CliError> {
    for _ in 0..LOOKS {
        // The one that runs it may die instead of ending it.
        engine.store().recover(ctx)?;
        let turns = engine.store().read(ctx, |r| r.turns(session))?;
        let found = turns.into_iter().find(|row| row.id == *turn).map(|row| row.state);
        if let Some(state) = found.filter(|state| !state.is_open()) {
            return Ok(Some(state));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}
