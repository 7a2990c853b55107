//! `turnstone status`

use std::path::Path;

use serde_json::{Value, json};
use turnstone_core::id::TurnId;
use turnstone_core::model::{Project, Session};
use turnstone_core::operation::SessionHead;
use turnstone_engine::Engine;
use turnstone_snapshot::{JournalState, SnapshotError, StoreStatus};
use turnstone_store::{ChangeSetRow, Context, TurnRow};

use crate::app::CliApp;
use crate::command::fork::origin_json;
use crate::command::log::read_prompt;
use crate::command::snapshot::{describe_journal_problem, open_existing_store};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::joined_clone;
use crate::number_format;
use crate::project_location::ProjectLocation;
use crate::session_lookup;
use crate::text;
use crate::trace_probe::TracingState;
use crate::ui::{HEADING_STYLE, ID_STYLE, SUCCESS_STYLE, Ui, WARNING_STYLE, apply_style};

/// Show project, session, running commands and whether undo works here
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone status --json")]
pub(crate) struct StatusArgs {}

/// Shown width of a prompt.
const MAX_PROMPT_WIDTH: usize = 40;

/// Everything `status` prints.
struct StatusReport {
    directory: String,
    project: Option<Project>,
    undo: UndoAvailability,
    session: Option<Session>,
    running: Option<TurnId>,
    head: Option<SessionHead>,
    /// The turn that the head is before, and its prompt.
    next_turn: Option<(TurnId, Option<String>)>,
    /// Sessions with a running command in this root.
    running_sessions: Vec<String>,
    /// Sessions whose changes in this root are not recorded yet.
    pending_sessions: Vec<String>,
    /// Sessions whose commands left processes running in this root.
    background_sessions: Vec<String>,
    tracing: TracingState,
}

/// Whether undo works here.
struct UndoAvailability {
    root: String,
    /// Why undo is not available.
    refused: Option<String>,
    /// What can be done about that.
    hint: Option<String>,
    /// The process that owns the store, if another one does.
    store_owner: Option<String>,
    /// ID of the store.
    store: Option<String>,
    /// What its owner watches; `None` if it cannot be asked.
    watcher: Option<StoreStatus>,
}

/// Prints the status.
///
/// # Errors
///
/// The database cannot be read.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, _: &StatusArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let report = collect_status(app, &engine, &ctx)?;
    if ui.wants_json() {
        ui.print_json(&status_json(&report))?;
    } else {
        print_status(ui, &report)?;
        if let Some(project) = &report.project {
            joined_clone::print_joined_clone(ui, &engine, &ctx, project, app.directory()?)?;
        }
        if let Some(hint) = &report.undo.hint {
            ui.print_hint(hint);
        }
    }
    Ok(ProgramExit::Ok)
}

fn collect_status(app: &CliApp, engine: &Engine, ctx: &Context) -> Result<StatusReport, CliError> {
    let directory = app.directory()?;
    let cover = check_undo_availability(app, directory);
    let tracing = TracingState::probe(app)?;
    let here = ProjectLocation::find(engine, ctx, directory)?.project;
    let session = session_lookup::find_newest_session(app, engine, ctx)?;
    // The store of the directory may not be readable, for example on a full disk.
    let mut open = engine.store().read(ctx, |r| r.change_sets().list_open(None))?;
    open.retain(|ChangeSetRow { set, .. }| match &cover.store {
        Some(store) => set.root.store == *store,
        None => directory.starts_with(&set.root.path),
    });
    let (mut at_work, mut pending, mut background) = (Vec::new(), Vec::new(), Vec::new());
    for ChangeSetRow { set, continues, .. } in open {
        if continues.is_some() {
            background.push(set.session.to_string());
            continue;
        }
        let turns = engine.store().read(ctx, |r| r.turns().list(&set.session))?;
        let is_open = turns.iter().any(|turn| turn.id == set.turn && turn.state.is_open());
        let runs = is_open && engine.store().leases().is_held(ctx, &set.session)?;
        let sessions = if runs { &mut at_work } else { &mut pending };
        sessions.push(set.session.to_string());
    }
    at_work.dedup();
    pending.dedup();
    background.dedup();
    Ok(engine.store().read(ctx, |r| {
        let projects = r.projects().list()?;
        let (mut running, mut head, mut next_turn) = (None, None, None);
        if let Some(session) = &session {
            let turns = r.turns().list(&session.id)?;
            head = r.sessions().head(&session.id)?;
            let is_next =
                |turn: &&TurnRow| head.as_ref().is_some_and(|it| it.message == turn.message);
            if let Some(turn) = turns.iter().find(is_next) {
                next_turn = Some((turn.id.clone(), read_prompt(r, &session.id, turn)?));
            }
            running = turns.into_iter().find(|turn| turn.state.is_open()).map(|turn| turn.id);
        }
        Ok(StatusReport {
            directory: directory.to_string_lossy().into_owned(),
            project: projects.into_iter().find(|project| Some(&project.id) == here.as_ref()),
            undo: cover,
            session: session.clone(),
            running,
            head,
            next_turn,
            running_sessions: at_work,
            pending_sessions: pending,
            background_sessions: background,
            tracing,
        })
    })?)
}

/// Checks without creating a store.
fn check_undo_availability(app: &CliApp, directory: &Path) -> UndoAvailability {
    let here = || directory.to_string_lossy().into_owned();
    match open_existing_store(app, directory) {
        // The engine of this process may own the store; then no other process does.
        Ok(handle) => UndoAvailability {
            // Only another process can be watching: this one has just opened the store.
            watcher: if handle.is_owner() { None } else { handle.maintenance().status().ok() },
            root: handle.location().root.to_string_lossy().into_owned(),
            refused: None,
            hint: None,
            store_owner: (!handle.is_owner())
                .then(|| handle.owner_description())
                .filter(|owner| *owner != format!("process {}", std::process::id())),
            store: Some(handle.location().id.to_string()),
        },
        Err(CliError::Snapshot(SnapshotError::Untracked(_))) => UndoAvailability {
            root: here(),
            refused: None,
            hint: None,
            store_owner: None,
            store: None,
            watcher: None,
        },
        Err(error) => UndoAvailability {
            root: here(),
            refused: Some(error.to_string()),
            hint: error.hint(),
            store_owner: None,
            store: None,
            watcher: None,
        },
    }
}

fn status_json(report: &StatusReport) -> Value {
    let StatusReport {
        directory,
        project,
        undo: cover,
        session,
        running,
        head,
        next_turn: _,
        running_sessions: at_work,
        pending_sessions: pending,
        background_sessions: background,
        tracing,
    } = report;
    json!({
        "directory": directory,
        "project": project.as_ref().map(|project| json!({
            "id": project.id, "name": project.name, "worktree": project.worktree,
            "unconfirmed_clone": project.find_joined_clone(Path::new(directory)).is_some(),
        })),
        "root": cover.root,
        "covered": cover.refused.is_none(),
        "refused": cover.refused,
        "captured": cover.store.is_some(),
        "keeper": cover.store_owner,
        "watcher": watcher_json(cover.watcher.as_ref()),
        "session": session.as_ref().map(|session| json!({
            "id": session.id, "title": session.title, "running": running, "head": head,
            "summary": session.summary, "origin": session.origin.as_ref().map(origin_json),
        })),
        "at_work": at_work,
        "pending": pending,
        "background": background,
        "tracing": tracing.to_json(),
    })
}

fn print_status(ui: &mut Ui, report: &StatusReport) -> Result<(), CliError> {
    let mut row = |name: &str, value: String| {
        ui.print_line(&format!("{}  {value}", apply_style(HEADING_STYLE, format!("{name:<8}"))))
    };
    let project = match &report.project {
        Some(project) => {
            let name = project.name.as_deref().map(text::sanitize_line);
            format!("{}  {}", apply_style(ID_STYLE, &project.id), name.unwrap_or_default())
        }
        None => "none yet; the first `turnstone exec` creates it".to_owned(),
    };
    row("project", project.trim_end().to_owned())?;
    row("root", text::sanitize_line(&report.undo.root))?;
    let undo = match (&report.undo.refused, &report.undo.store) {
        (Some(why), _) => {
            apply_style(WARNING_STYLE, format!("not available: {}", text::sanitize_line(why)))
        }
        (None, None) => "available; nothing captured yet".to_owned(),
        (None, Some(_)) if report.session.is_none() => {
            "captures exist, but there is no session here to undo".to_owned()
        }
        (None, Some(_)) => apply_style(SUCCESS_STYLE, "available"),
    };
    row("undo", undo)?;
    if let Some(owner) = &report.undo.store_owner {
        row("store", format!("held by {}", text::sanitize_line(owner)))?;
    }
    row("watcher", describe_watcher(report.undo.watcher.as_ref()))?;
    row("tracing", text::sanitize_line(&report.tracing.describe()))?;
    let Some(session) = &report.session else {
        return row("session", "none yet".to_owned());
    };
    let title = text::sanitize_line(&session.title);
    row("session", format!("{}  {title}", apply_style(ID_STYLE, &session.id)))?;
    if let Some(summary) = &session.summary {
        let files = number_format::format_counted(summary.files.as_i64().unwrap_or(0), "file");
        let figures = format!("+{} -{} in {files}", summary.additions, summary.deletions);
        row("changed", figures)?;
    }
    let turn = match &report.running {
        Some(turn) => apply_style(WARNING_STYLE, format!("{turn} is running")),
        None => "none running".to_owned(),
    };
    row("turn", turn)?;
    row("position", describe_position(report))?;
    for session in &report.running_sessions {
        row("running", format!("session {session} runs a command in this directory"))?;
    }
    for session in &report.background_sessions {
        let what =
            "processes that a command left running; their changes are recorded when they end";
        row("background", format!("session {session}: {what}"))?;
    }
    for session in &report.pending_sessions {
        let what = format!("changes of session {session} are not recorded yet");
        row("pending", apply_style(WARNING_STYLE, what))?;
    }
    Ok(())
}

fn watcher_json(watcher: Option<&StoreStatus>) -> Value {
    let Some(StoreStatus { journal, files, memory }) = watcher else { return Value::Null };
    json!({ "state": journal.state, "files": files, "folders": journal.watched, "memory": memory })
}

/// Whether captures look at what changed or at every file.
fn describe_watcher(watcher: Option<&StoreStatus>) -> String {
    let Some(StoreStatus { journal, files, memory }) = watcher else {
        return "off; captures scan all files (`turnstone serve` or `turnstone snapshot watch` \
                speeds them up)"
            .to_owned();
    };
    match (journal.state, describe_journal_problem(journal.state)) {
        (JournalState::Off, _) => "off; captures scan all files".to_owned(),
        (JournalState::Starting, _) => "starting; the first capture scans all files".to_owned(),
        (_, Some(why)) => format!("off; captures scan all files: {why}"),
        (_, None) => {
            let files = number_format::format_counted(*files, "file");
            let folders = number_format::format_counted(journal.watched, "folder");
            format!("on; {files} in {folders}, {}", number_format::format_size(*memory))
        }
    }
}

/// Where the head is, and what a redo does from there.
fn describe_position(report: &StatusReport) -> String {
    let redo = "`turnstone redo` restores what was undone";
    match (&report.head, &report.next_turn) {
        (Some(_), Some((turn, Some(prompt)))) => {
            let prompt = text::truncate_to_width(prompt, MAX_PROMPT_WIDTH);
            format!("before \"{prompt}\" ({turn}); {redo}")
        }
        (Some(_), Some((turn, None))) => format!("before turn {turn}; {redo}"),
        (Some(head), None) => format!("before message {}; {redo}", head.message),
        (None, _) => "end of the conversation".to_owned(),
    }
}
