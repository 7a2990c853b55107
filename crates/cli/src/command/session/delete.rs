//! `turnstone session delete`

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::Session;
use turnstone_store::{Reader, StoreError};

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::reference::Prefix;
use crate::text;
use crate::ui::{NAME, Ui, paint};

/// Delete sessions with everything in them
///
/// Sessions that a deleted session started go with it. This cannot be undone; `session archive`
/// only puts a session out of sight. The permission `delete` applies: a rule may deny it, and a
/// command inside a turn is asked about.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session delete ses_e21d --dry-run")]
pub(crate) struct DeleteArgs {
    /// The sessions: ids, or beginnings no other id has
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<Prefix>,

    /// Print what would go, and stop
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// One session that would go, and where it hangs in the tree.
struct Doomed {
    session: Session,
    depth: usize,
    messages: usize,
    parts: usize,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &DeleteArgs) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    let store = engine.store();
    let mut roots: Vec<SessionId> = Vec::new();
    for prefix in &args.sessions {
        let id = prefix.session(store, &ctx)?;
        if !roots.contains(&id) {
            roots.push(id);
        }
    }
    let plan = store.read(&ctx, |r| plan(r, &roots))?;
    if args.dry_run {
        return print(ui, &plan).map(|()| Exit::Ok);
    }
    // All of them before any of them: a refusal deletes nothing.
    for id in &roots {
        engine.require_delete(&ctx, id)?;
    }
    if !args.yes {
        tell(ui, &plan);
        let question = format!("Delete {} for good?", figure::counted(plan.len(), "session"));
        if !ui.confirm(&question)? {
            return Err(CliError::NotConfirmed);
        }
    }
    let mut gone = 0;
    for id in &roots {
        match store.delete_session(&ctx, id) {
            Ok(deleted) => gone += deleted.sessions.len(),
            // It went with a session that was named before it.
            Err(StoreError::NoSession(_) | StoreError::Deleted(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The rows go now; if this is cut off, the next upkeep finishes it.
    while !store.purge_some(&ctx, 64)? {}
    let directories = plan.iter().map(|doomed| doomed.session.directory.clone().into()).collect();
    if let Err(error) = engine.tend_after_delete(&app.context(), &directories) {
        tracing::info!("upkeep of the snapshots failed: {error}");
    }
    if ui.wants_json() {
        print(ui, &plan)?;
    }
    ui.note(&format!("deleted {}", figure::counted(gone, "session")));
    Ok(Exit::Ok)
}

/// Everything that goes with these sessions: each once, below what it hangs on.
fn plan(reader: &Reader<'_>, roots: &[SessionId]) -> Result<Vec<Doomed>, StoreError> {
    let mut plan: Vec<Doomed> = Vec::new();
    let mut open: Vec<(Session, usize)> = Vec::new();
    for id in roots.iter().rev() {
        open.push((reader.get_session(id)?, 0));
    }
    while let Some((session, depth)) = open.pop() {
        if plan.iter().any(|doomed| doomed.session.id == session.id) {
            continue;
        }
        let children = reader.children(&session.id)?;
        open.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
        let messages = reader.list_messages(&session.id, None, usize::MAX - 1)?.items;
        let parts = messages.iter().map(|message| message.parts.len()).sum();
        plan.push(Doomed { session, depth, messages: messages.len(), parts });
    }
    Ok(plan)
}

fn print(ui: &mut Ui, plan: &[Doomed]) -> Result<(), CliError> {
    if !ui.wants_json() {
        for line in lines(plan) {
            ui.line(&line)?;
        }
        return Ok(());
    }
    let value = |doomed: &Doomed| {
        json!({
            "id": doomed.session.id,
            "title": doomed.session.title,
            "parentID": doomed.session.parent,
            "messages": doomed.messages,
            "parts": doomed.parts,
        })
    };
    ui.json(&Value::Array(plan.iter().map(value).collect()))
}

fn tell(ui: &mut Ui, plan: &[Doomed]) {
    for line in lines(plan) {
        ui.note(&line);
    }
}

fn lines(plan: &[Doomed]) -> Vec<String> {
    let line = |doomed: &Doomed| {
        format!(
            "{}{}  {}  ({}, {})",
            "  ".repeat(doomed.depth),
            paint(NAME, &doomed.session.id),
            text::clean_line(&doomed.session.title),
            figure::counted(doomed.messages, "message"),
            figure::counted(doomed.parts, "part"),
        )
    };
    let (messages, parts) =
        plan.iter().fold((0, 0), |sum, doomed| (sum.0 + doomed.messages, sum.1 + doomed.parts));
    let mut lines: Vec<String> = plan.iter().map(line).collect();
    lines.push(format!(
        "{}, {}, {} would go",
        figure::counted(plan.len(), "session"),
        figure::counted(messages, "message"),
        figure::counted(parts, "part"),
    ));
    lines
}
