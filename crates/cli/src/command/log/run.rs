//! `turnstone log`

use serde_json::json;

use super::{read, show};
use crate::app::App;
use crate::choice;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reference::Prefix;
use crate::ui::Ui;

/// Show what happened in a session: turns, the files they changed, operations, forks
///
/// Oldest first. Whatever has an id here is a point `turnstone jump` and `turnstone diff` take. A file that was only seen changing while a command ran is marked `window`; one
/// whose command was cut off, `recovered`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone log\n  turnstone log ses_e21d --all --json")]
pub(crate) struct LogArgs {
    /// The session [default: the newest of this directory]
    #[arg(value_name = "ID")]
    session: Option<Prefix>,

    /// Also what later prompts left behind
    #[arg(long)]
    all: bool,
}

/// Prints the timeline.
///
/// # Errors
///
/// There is no such session.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &LogArgs) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    choice::settle(ui, &engine, &ctx);
    let session = choice::session(app, &engine, &ctx, args.session.as_ref())?;
    let entries = read::timeline(&engine, &ctx, &session.id, args.all)?;
    let forks = read::forks(&engine, &ctx, &session)?;
    if ui.wants_json() {
        let head = engine.store().read(&ctx, |r| r.head(&session.id))?;
        ui.json(&json!({ "session": session.id, "title": session.title, "head": head,
            "origin": session.origin, "summary": session.summary,
            "entries": serde_json::to_value(&entries)?, "forks": forks }))?;
        return Ok(Exit::Ok);
    }
    show::print(ui, app.now(), &session, &entries, &forks)?;
    Ok(Exit::Ok)
}
