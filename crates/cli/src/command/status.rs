//! `turnstone status`

use std::path::Path;

use serde_json::{Value, json};
use turnstone_core::id::TurnId;
use turnstone_core::model::{Project, Session};
use turnstone_core::operation::SessionHead;
use turnstone_engine::Engine;
use turnstone_snapshot::SnapshotError;
use turnstone_store::Context;

use crate::app::CliApp;
use crate::command::snapshot::open_existing_store;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::project_location::ProjectLocation;
use crate::session_lookup;
use crate::text;
use crate::ui::{HEADING_STYLE, ID_STYLE, SUCCESS_STYLE, Ui, WARNING_STYLE, apply_style};

/// Show project, session, running commands and whether undo works here
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone status --json")]
pub(crate) struct StatusArgs {}

/// Everything `status` prints.
struct StatusReport {
    directory: String,
    project: Option<Project>,
    undo: UndoAvailability,
    session: Option<Session>,
    running: Option<TurnId>,
    head: Option<SessionHead>,
    /// Sessions with a running command in this root.
    running_sessions: Vec<String>,
}

/// Whether undo works here.
struct UndoAvailability {
    root: String,
    /// Why undo is not available.
    refused: Option<String>,
    /// The process that owns the store, if another one does.
    store_owner: Option<String>,
    /// ID of the store.
    store: Option<String>,
}

/// Prints the status.
///
/// # Errors
///
/// The ledger cannot be read.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, _: &StatusArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let report = collect_status(app, &engine, &ctx)?;
    if ui.wants_json() {
        ui.print_json(&status_json(&report))?;
    } else {
        print_status(ui, &report)?;
    }
    Ok(ProgramExit::Ok)
}

fn collect_status(app: &CliApp, engine: &Engine, ctx: &Context) -> Result<StatusReport, CliError> {
    let directory = app.directory()?;
    let cover = check_undo_availability(app, directory);
    let session = session_lookup::find_newest_session(app, engine.store(), ctx)?;
    let store = cover.store.clone();
    Ok(engine.store().read(ctx, |r| {
        let projects = r.projects().list()?;
        let here = ProjectLocation::find(&projects, directory).project;
        let (mut running, mut head, mut at_work) = (None, None, Vec::new());
        if let Some(session) = &session {
            let turns = r.turns().list(&session.id)?;
            running = turns.into_iter().find(|turn| turn.state.is_open()).map(|turn| turn.id);
            head = r.sessions().head(&session.id)?;
        }
        if let Some(store) = &store {
            let open = r.change_sets().list_open(Some(store))?;
            at_work.extend(open.into_iter().map(|row| row.set.session.to_string()));
        }
        at_work.dedup();
        Ok(StatusReport {
            directory: directory.to_string_lossy().into_owned(),
            project: projects.into_iter().find(|project| Some(&project.id) == here.as_ref()),
            undo: cover,
            session: session.clone(),
            running,
            head,
            running_sessions: at_work,
        })
    })?)
}

/// Checks without creating a store.
fn check_undo_availability(app: &CliApp, directory: &Path) -> UndoAvailability {
    let here = || directory.to_string_lossy().into_owned();
    match open_existing_store(app, directory) {
        Ok(handle) => UndoAvailability {
            root: handle.location().root.to_string_lossy().into_owned(),
            refused: None,
            store_owner: (!handle.is_owner()).then(|| handle.owner_description()),
            store: Some(handle.location().id.to_string()),
        },
        Err(CliError::Snapshot(SnapshotError::Untracked(_))) => {
            UndoAvailability { root: here(), refused: None, store_owner: None, store: None }
        }
        Err(error) => UndoAvailability {
            root: here(),
            refused: Some(error.to_string()),
            store_owner: None,
            store: None,
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
        running_sessions: at_work,
    } = report;
    json!({
        "directory": directory,
        "project": project.as_ref().map(|project| json!({
            "id": project.id, "name": project.name, "worktree": project.worktree,
        })),
        "root": cover.root,
        "covered": cover.refused.is_none(),
        "refused": cover.refused,
        "captured": cover.store.is_some(),
        "keeper": cover.store_owner,
        "session": session.as_ref().map(|session| json!({
            "id": session.id, "title": session.title, "running": running, "head": head,
            "summary": session.summary, "origin": session.origin,
        })),
        "at_work": at_work,
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
        (None, Some(_)) => apply_style(SUCCESS_STYLE, "available"),
    };
    row("undo", undo)?;
    match &report.undo.store_owner {
        Some(owner) => row("store", format!("held by {}", text::sanitize_line(owner)))?,
        None => row(
            "watcher",
            "off; captures scan all files (`turnstone snapshot watch` speeds them up)".to_owned(),
        )?,
    }
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
    let head = match &report.head {
        Some(head) => format!("before {}; `turnstone redo` moves forward", head.message),
        None => "end of the conversation".to_owned(),
    };
    row("position", head)?;
    for session in &report.running_sessions {
        row("running", format!("session {session} runs a command in this directory"))?;
    }
    Ok(())
}
