//! `turnstone status`

use std::path::Path;

use serde_json::{Value, json};
use turnstone_core::id::TurnId;
use turnstone_core::model::{Project, Session};
use turnstone_core::operation::Head;
use turnstone_engine::Engine;
use turnstone_snapshot::VaultError;
use turnstone_store::Context;

use crate::app::App;
use crate::choice;
use crate::command::snapshot::look;
use crate::error::CliError;
use crate::exit::Exit;
use crate::place::Place;
use crate::text;
use crate::ui::{GOOD, HEAD, NAME, Ui, WARN, paint};

/// Say where you are: project, session, what runs, whether undo works
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone status --json")]
pub(crate) struct StatusArgs {}

/// What there is to say.
struct Standing {
    directory: String,
    project: Option<Project>,
    cover: Covered,
    session: Option<Session>,
    running: Option<TurnId>,
    head: Option<Head>,
    /// Sessions with a command in this root right now.
    at_work: Vec<String>,
}

/// Whether files are captured here.
struct Covered {
    root: String,
    /// Why not, if they are not.
    refused: Option<String>,
    /// Who keeps the store, if somebody does.
    keeper: Option<String>,
    /// The store's name.
    store: Option<String>,
}

/// Prints it.
///
/// # Errors
///
/// The ledger cannot be read.
pub(crate) fn run(ui: &mut Ui, app: &App, _: &StatusArgs) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    choice::settle(ui, &engine, &ctx);
    let standing = gather(app, &engine, &ctx)?;
    if ui.wants_json() {
        ui.json(&value(&standing))?;
    } else {
        print(ui, &standing)?;
    }
    Ok(Exit::Ok)
}

fn gather(app: &App, engine: &Engine, ctx: &Context) -> Result<Standing, CliError> {
    let directory = app.directory()?;
    let cover = cover(app, directory);
    let session = choice::newest(app, engine, ctx)?;
    let store = cover.store.clone();
    Ok(engine.store().read(ctx, |r| {
        let projects = r.projects()?;
        let here = Place::find(&projects, directory).project;
        let (mut running, mut head, mut at_work) = (None, None, Vec::new());
        if let Some(session) = &session {
            let turns = r.turns(&session.id)?;
            running = turns.into_iter().find(|turn| turn.state.is_open()).map(|turn| turn.id);
            head = r.head(&session.id)?;
        }
        if let Some(store) = &store {
            let open = r.open_changes(Some(store))?;
            at_work.extend(open.into_iter().map(|row| row.set.session.to_string()));
        }
        at_work.dedup();
        Ok(Standing {
            directory: directory.to_string_lossy().into_owned(),
            project: projects.into_iter().find(|project| Some(&project.id) == here.as_ref()),
            cover,
            session: session.clone(),
            running,
            head,
            at_work,
        })
    })?)
}

/// Looks without making a store.
fn cover(app: &App, directory: &Path) -> Covered {
    let here = || directory.to_string_lossy().into_owned();
    match look(app, directory) {
        Ok(vault) => Covered {
            root: vault.place().root.to_string_lossy().into_owned(),
            refused: None,
            keeper: (!vault.is_keeper()).then(|| vault.keeper_words()),
            store: Some(vault.place().id.to_string()),
        },
        Err(CliError::Snapshot(VaultError::Untracked(_))) => {
            Covered { root: here(), refused: None, keeper: None, store: None }
        }
        Err(error) => {
            Covered { root: here(), refused: Some(error.to_string()), keeper: None, store: None }
        }
    }
}

fn value(standing: &Standing) -> Value {
    let Standing { directory, project, cover, session, running, head, at_work } = standing;
    json!({
        "directory": directory,
        "project": project.as_ref().map(|project| json!({
            "id": project.id, "name": project.name, "worktree": project.worktree,
        })),
        "root": cover.root,
        "covered": cover.refused.is_none(),
        "refused": cover.refused,
        "captured": cover.store.is_some(),
        "keeper": cover.keeper,
        "session": session.as_ref().map(|session| json!({
            "id": session.id, "title": session.title, "running": running, "head": head,
            "summary": session.summary, "origin": session.origin,
        })),
        "at_work": at_work,
    })
}

fn print(ui: &mut Ui, standing: &Standing) -> Result<(), CliError> {
    let mut row = |name: &str, words: String| {
        ui.line(&format!("{}  {words}", paint(HEAD, format!("{name:<8}"))))
    };
    let project = match &standing.project {
        Some(project) => {
            let name = project.name.as_deref().map(text::clean_line);
            format!("{}  {}", paint(NAME, &project.id), name.unwrap_or_default())
        }
        None => "none yet; the first `turnstone exec` here makes it".to_owned(),
    };
    row("project", project.trim_end().to_owned())?;
    row("root", text::clean_line(&standing.cover.root))?;
    let undo = match (&standing.cover.refused, &standing.cover.store) {
        (Some(why), _) => paint(WARN, format!("no undo here: {}", text::clean_line(why))),
        (None, None) => "works; nothing is captured yet".to_owned(),
        (None, Some(_)) => paint(GOOD, "works"),
    };
    row("undo", undo)?;
    let journal = match &standing.cover.keeper {
        Some(keeper) => format!("with whoever keeps the store: {}", text::clean_line(keeper)),
        None => {
            "off: captures look at every file (`turnstone snapshot watch` keeps one)".to_owned()
        }
    };
    row("journal", journal)?;
    let Some(session) = &standing.session else {
        return row("session", "none yet".to_owned());
    };
    let title = text::clean_line(&session.title);
    row("session", format!("{}  {title}", paint(NAME, &session.id)))?;
    if let Some(summary) = &session.summary {
        let figures =
            format!("+{} -{} in {} files", summary.additions, summary.deletions, summary.files);
        row("changed", figures)?;
    }
    let turn = match &standing.running {
        Some(turn) => paint(WARN, format!("running {turn}")),
        None => "none is running".to_owned(),
    };
    row("turn", turn)?;
    let head = match &standing.head {
        Some(head) => format!("before {}; `turnstone redo` goes forward", head.message),
        None => "at the end".to_owned(),
    };
    row("head", head)?;
    for session in &standing.at_work {
        row("at work", format!("{session} has a command running in these files"))?;
    }
    Ok(())
}
