//! `turnstone log`

use std::collections::HashSet;

use serde_json::{Value, json};
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::Session;
use turnstone_engine::Engine;
use turnstone_store::{Context, ProjectTurnRow};

use super::log_entries::{self, LogEntry, LogFork, LogRange};
use super::log_output::{self, LogPrintContext};
use super::turn_numbers::{self, TurnNumbers};
use crate::app::CliApp;
use crate::command::fork::origin_json;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::session_lookup;
use crate::ui::Ui;

/// Turns shown without `--limit`; `--json` shows all.
const DEFAULT_LIMIT: usize = 50;

/// Show the history of a project or session: turns, changed files, operations and forks
///
/// Newest first; with --json oldest first. `@1` is the newest turn of the project, `@2` the one before it,
/// whichever session they belong to; commands accept these numbers and the IDs wherever they accept a turn.
/// `recovered` marks a file that changed while an untraced command ran that was interrupted, and `imported`
/// one that OpenCode's snapshots show. If a turn has files of several kinds, `traced` and `window` are
/// shown, too: the command was seen writing the file, or the file changed while an untraced command ran.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone log\n  turnstone log ses_e21d --all --json")]
pub(crate) struct LogArgs {
    /// Session ID or unique prefix [default: all sessions of this project]
    #[arg(value_name = "ID")]
    session: Option<IdPrefix>,

    /// Include turns that a later prompt abandoned
    #[arg(long)]
    all: bool,

    /// Show only the newest N turns [default: 50, with --json all]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
}

/// Prints the timeline.
///
/// # Errors
///
/// There is no such session, or no session in this directory.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &LogArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let session =
        session_lookup::resolve_session_or_newest(app, &engine, &ctx, args.session.as_ref())?;
    let turns = match session_lookup::resolve_checkout(app, &engine, &ctx) {
        Ok(checkout) => engine.history().checkout_turns().list(&ctx, &checkout)?,
        // A session can be named from anywhere; then its turns have no numbers.
        Err(_) if args.session.is_some() => Vec::new(),
        Err(error) => return Err(error),
    };
    let numbers = TurnNumbers::new(&turns);
    let shown = select_printed_turns(&engine, &ctx, args, &session, &turns)?;
    let limit = args.limit.unwrap_or(if ui.wants_json() { usize::MAX } else { DEFAULT_LIMIT });
    let (since, older) = turn_numbers::find_start(&shown, args.all, limit);
    let listed: HashSet<TurnId> = turns.iter().map(|row| row.turn.id.clone()).collect();
    let listed = args.session.is_none().then_some(&listed);
    let range = LogRange { all: args.all, since, turns: listed };
    let sessions: Vec<&SessionId> = match args.session.is_some() || shown.is_empty() {
        true => vec![&session.id],
        false => turn_numbers::list_sessions(&shown),
    };
    let entries = log_entries::read_log(&engine, &ctx, sessions, range, &numbers)?;
    let forks = log_entries::read_forks(&engine, &ctx, &session)?;
    if ui.wants_json() {
        ui.print_json(&log_json(&engine, &ctx, &session, &entries, &forks)?)?;
        return Ok(ProgramExit::Ok);
    }
    let layout = LogPrintContext::new(&engine, &ctx, app.now(), (&turns, &shown), &entries)?;
    let named = args.session.as_ref().map(|_| (&session, forks.as_slice()));
    log_output::print_log(ui, &layout, named, &entries)?;
    if older > 0 {
        let count = number_format::format_counted(older, "older turn");
        ui.print_note(&format!("{count} not shown; `--limit N` shows more"));
    }
    Ok(ProgramExit::Ok)
}

/// The turns to choose from, newest first: those of the given session, or all.
fn select_printed_turns(
    engine: &Engine,
    ctx: &Context,
    args: &LogArgs,
    session: &Session,
    all: &[ProjectTurnRow],
) -> Result<Vec<ProjectTurnRow>, CliError> {
    if args.session.is_none() {
        return Ok(all.to_vec());
    }
    let own = engine.store().read(ctx, |r| r.turns().list(&session.id))?;
    let row = |turn| ProjectTurnRow {
        session: session.id.clone(),
        directory: session.directory.clone(),
        turn,
        predates_session: false,
    };
    Ok(own.into_iter().rev().map(row).collect())
}

/// The newest or the given session, and the entries.
fn log_json(
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    entries: &[LogEntry],
    forks: &[LogFork],
) -> Result<Value, CliError> {
    let head = engine.store().read(ctx, |r| r.sessions().head(&session.id))?;
    Ok(json!({
        "project": session.project, "session": session.id, "title": session.title, "head": head,
        "origin": session.origin.as_ref().map(origin_json), "summary": session.summary,
        "entries": serde_json::to_value(entries)?, "forks": forks,
    }))
}
