//! `turnstone log`

use serde_json::json;

use super::{log_entries, log_output};
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::session_lookup;
use crate::ui::Ui;

/// Show the history of a session: turns, changed files, operations and forks
///
/// Oldest first. The IDs of turns and operations can be used with `turnstone jump` and
/// `turnstone diff`. `window` marks a file that changed while a command ran, `recovered` a file changed
/// by an interrupted command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone log\n  turnstone log ses_e21d --all --json")]
pub(crate) struct LogArgs {
    /// Session ID or unique prefix [default: the newest session of this directory]
    #[arg(value_name = "ID")]
    session: Option<IdPrefix>,

    /// Include turns that a later prompt abandoned
    #[arg(long)]
    all: bool,
}

/// Prints the timeline.
///
/// # Errors
///
/// There is no such session.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &LogArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let session =
        session_lookup::resolve_session_or_newest(app, &engine, &ctx, args.session.as_ref())?;
    let entries = log_entries::read_log(&engine, &ctx, &session.id, args.all)?;
    let forks = log_entries::read_forks(&engine, &ctx, &session)?;
    if ui.wants_json() {
        let head = engine.store().read(&ctx, |r| r.sessions().head(&session.id))?;
        ui.print_json(&json!({ "session": session.id, "title": session.title, "head": head,
            "origin": session.origin, "summary": session.summary,
            "entries": serde_json::to_value(&entries)?, "forks": forks }))?;
        return Ok(ProgramExit::Ok);
    }
    log_output::print_log(ui, app.now(), &session, &entries, &forks)?;
    Ok(ProgramExit::Ok)
}
