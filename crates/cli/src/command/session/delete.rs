//! `turnstone session delete`

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::Session;
use turnstone_engine::Engine;
use turnstone_store::{ReadTx, StoreError, UnrevokedShare};

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::text;
use crate::ui::{ID_STYLE, Ui, apply_style};

/// Permanently delete sessions
///
/// Also deletes child sessions. This cannot be undone; `session archive` only hides a session.
///
/// Everything the sessions held is removed from the disk before the command ends: messages, search index, stored
/// output and captured files. Forks and backups keep their copies, and other sessions of the same directory keep the
/// file versions that they captured themselves. The link and the secret of an imported share are kept, because this
/// version cannot end the share at its hub.
///
/// Needs the permission `delete`: a rule can deny it, and a command that an agent runs must be approved.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session delete ses_e21d --dry-run")]
pub(crate) struct DeleteArgs {
    /// Session IDs or unique prefixes
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<IdPrefix>,

    /// Show what would be deleted and exit
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// A session to delete, and its depth in the tree of child sessions.
struct SessionToDelete {
    session: Session,
    depth: usize,
    messages: usize,
    parts: usize,
}

pub(super) fn run(ui: &mut Ui, app: &CliApp, args: &DeleteArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let store = engine.store();
    let mut roots: Vec<SessionId> = Vec::new();
    for prefix in &args.sessions {
        let id = prefix.resolve_session(store, &ctx)?;
        if !roots.contains(&id) {
            roots.push(id);
        }
    }
    let plan = store.read(&ctx, |r| plan_deletion(r, &roots))?;
    if args.dry_run {
        return print_plan(ui, &plan).map(|()| ProgramExit::Ok);
    }
    // Check all permissions first: a refusal deletes nothing.
    for id in &roots {
        engine.permissions().gates().require_delete(&ctx, id)?;
    }
    if !args.yes {
        print_plan_to_stderr(ui, &plan);
        let question =
            format!("Permanently delete {}?", number_format::format_counted(plan.len(), "session"));
        if !ui.confirm(&question)? {
            return Err(CliError::NotConfirmed);
        }
    }
    let mut gone = 0;
    for id in &roots {
        match store.delete_session(&ctx, id) {
            Ok(deleted) => gone += deleted.sessions.len(),
            // Already deleted as a child of another one.
            Err(StoreError::NoSession(_) | StoreError::Deleted(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if ui.wants_json() {
        print_plan(ui, &plan)?;
    }
    ui.print_note(&format!("deleted {}", number_format::format_counted(gone, "session")));
    finish_deletions(ui, app, &engine)?;
    let ids: Vec<SessionId> = plan.into_iter().map(|target| target.session.id).collect();
    let copies = engine.maintenance().session_eraser().find_retained_copies(&ctx, &ids)?;
    print_unrevoked_shares(ui, &store.read(&ctx, |r| r.shares().list_unrevoked())?, &ids);
    for fork in &copies.forks {
        ui.print_note(&format!("kept: {fork} is a fork with its own copy"));
    }
    if let Some(folder) = copies.backups.first().and_then(|backup| backup.parent()) {
        let count = number_format::format_counted(copies.backups.len(), "backup");
        let folder = text::sanitize_line(&folder.to_string_lossy());
        ui.print_note(&format!("kept: {count} in {folder} may contain deleted sessions"));
    }
    Ok(ProgramExit::Ok)
}

/// Names the shares of deleted sessions that are still public.
fn print_unrevoked_shares(ui: &mut Ui, shares: &[UnrevokedShare], deleted: &[SessionId]) {
    for kept in shares.iter().filter(|kept| deleted.contains(&kept.session)) {
        let url = text::sanitize_line(&kept.share.url);
        ui.print_note(&format!(
            "kept: ID, link and secret of the share {url}: it is still public, because this \
             version cannot end it"
        ));
    }
}

/// Removes what deleted sessions left in captures, database, search index and output files.
///
/// # Errors
///
/// The sessions are deleted, and something of them is still on the disk.
pub(crate) fn finish_deletions(ui: &mut Ui, app: &CliApp, engine: &Engine) -> Result<(), CliError> {
    let erase = || engine.maintenance().session_eraser().finish_deletions(&app.context());
    let report = ui.with_spinner("removing data from the disk", erase).map_err(|error| {
        let what = format!("deleted, but some of the data is still on the disk: {error}");
        CliError::Refused { what, hint: Some("run `turnstone db compact`".to_owned()) }
    })?;
    for store in &report.unreachable_stores {
        let store = text::sanitize_line(&store.to_string_lossy());
        ui.print_note(&format!(
            "kept: {store} holds captures of other sessions, and its directory is gone"
        ));
    }
    Ok(())
}

/// These sessions and their descendants, each once, children after their parent.
fn plan_deletion(
    reader: &ReadTx<'_>,
    roots: &[SessionId],
) -> Result<Vec<SessionToDelete>, StoreError> {
    let mut plan: Vec<SessionToDelete> = Vec::new();
    let mut open: Vec<(Session, usize)> = Vec::new();
    for id in roots.iter().rev() {
        open.push((reader.sessions().get(id)?, 0));
    }
    while let Some((session, depth)) = open.pop() {
        if plan.iter().any(|target| target.session.id == session.id) {
            continue;
        }
        let children = reader.sessions().children(&session.id)?;
        open.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
        let messages = reader.messages().list(&session.id, None, usize::MAX - 1)?.items;
        let parts = messages.iter().map(|message| message.parts.len()).sum();
        plan.push(SessionToDelete { session, depth, messages: messages.len(), parts });
    }
    Ok(plan)
}

fn print_plan(ui: &mut Ui, plan: &[SessionToDelete]) -> Result<(), CliError> {
    if !ui.wants_json() {
        for line in plan_lines(plan) {
            ui.print_line(&line)?;
        }
        return Ok(());
    }
    let value = |target: &SessionToDelete| {
        json!({
            "id": target.session.id,
            "title": target.session.title,
            "parent": target.session.parent,
            "messages": target.messages,
            "parts": target.parts,
        })
    };
    ui.print_json(&Value::Array(plan.iter().map(value).collect()))
}

fn print_plan_to_stderr(ui: &mut Ui, plan: &[SessionToDelete]) {
    for line in plan_lines(plan) {
        ui.print_note(&line);
    }
}

fn plan_lines(plan: &[SessionToDelete]) -> Vec<String> {
    let line = |target: &SessionToDelete| {
        format!(
            "{}{}  {}  ({}, {})",
            "  ".repeat(target.depth),
            apply_style(ID_STYLE, &target.session.id),
            text::sanitize_line(&target.session.title),
            number_format::format_counted(target.messages, "message"),
            number_format::format_counted(target.parts, "part"),
        )
    };
    let (messages, parts) =
        plan.iter().fold((0, 0), |sum, target| (sum.0 + target.messages, sum.1 + target.parts));
    let mut lines: Vec<String> = plan.iter().map(line).collect();
    lines.push(format!(
        "to delete: {}, {}, {}",
        number_format::format_counted(plan.len(), "session"),
        number_format::format_counted(messages, "message"),
        number_format::format_counted(parts, "part"),
    ));
    lines
}
