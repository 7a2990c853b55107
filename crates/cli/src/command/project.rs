//! `turnstone project`: list, relink, remove.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_core::model::Project;
use turnstone_engine::{Engine, ProjectRemovalPlan};

use crate::app::CliApp;
use crate::command::worktree;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// What to do with projects.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ProjectCommand {
    List(ProjectListArgs),
    Relink(RelinkArgs),
    Remove(ProjectRemoveArgs),
}

/// List the projects, and where they are
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone project list")]
pub(crate) struct ProjectListArgs {}

/// Say that a directory belongs to a project
///
/// If the project's own directory is gone, this is its new place, and its sessions move along;
/// otherwise it is a further one. Sessions that were begun there come to the project.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone project relink 4b825dc6 ~/work/app")]
pub(crate) struct RelinkArgs {
    /// The project: its id, or a beginning no other id has
    #[arg(value_name = "ID")]
    project: IdPrefix,

    /// The directory; without it, the current one
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Forget a project: its sessions, its snapshots and the worktrees turnstone made for it
///
/// The project's own directories are never touched. This cannot be undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone project remove 4b825dc6 --dry-run")]
pub(crate) struct ProjectRemoveArgs {
    /// The project: its id, or a beginning no other id has
    #[arg(value_name = "ID")]
    project: IdPrefix,

    /// Print what would go, and stop
    #[arg(long)]
    dry_run: bool,

    /// Worktrees too that hold work which exists nowhere else
    #[arg(long)]
    force: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Runs one of them.
///
/// # Errors
///
/// What it answers.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &ProjectCommand,
) -> Result<ProgramExit, CliError> {
    match command {
        ProjectCommand::List(_) => list(ui, app),
        ProjectCommand::Relink(args) => relink(ui, app, args),
        ProjectCommand::Remove(args) => remove(ui, app, args),
    }
}

fn list(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let listed = app.open_engine()?.projects().list(&app.context())?;
    if ui.wants_json() {
        ui.print_json(&serde_json::to_value(&listed)?)?;
        return Ok(ProgramExit::Ok);
    }
    let mut grid = TextTable::new(&[
        ("ID", ColumnKind::Text),
        ("SESSIONS", ColumnKind::Number),
        ("DIRECTORY", ColumnKind::Truncated),
        ("", ColumnKind::Text),
    ]);
    for it in &listed {
        let Project { id, worktree, sandboxes, .. } = &it.project;
        let note = match (it.exists, sandboxes.len()) {
            (false, _) => "gone".to_owned(),
            (true, 0) => String::new(),
            (true, more) => format!("+ {more} more"),
        };
        grid.add_row(&[id.to_string(), it.sessions.to_string(), worktree.clone(), note]);
    }
    ui.print_table(&grid)?;
    if listed.iter().any(|it| !it.exists) {
        ui.print_hint("`turnstone project relink ID DIR` tells where a project went");
    }
    Ok(ProgramExit::Ok)
}

/// The project that was named.
fn resolve_project(app: &CliApp, engine: &Engine, prefix: &IdPrefix) -> Result<Project, CliError> {
    let listed = engine.projects().list(&app.context())?;
    let projects: Vec<Project> = listed.into_iter().map(|it| it.project).collect();
    prefix.resolve_project(&projects).cloned()
}

fn relink(ui: &mut Ui, app: &CliApp, args: &RelinkArgs) -> Result<ProgramExit, CliError> {
    let engine = app.open_engine()?;
    let project = resolve_project(app, &engine, &args.project)?;
    let directory = match &args.directory {
        Some(given) => app.directory()?.join(given),
        None => app.directory()?.to_owned(),
    };
    let done = engine.projects().relink(&app.context(), &project.id, &directory)?;
    if ui.wants_json() {
        ui.print_json(&serde_json::to_value(&done)?)?;
    }
    if let Some(from) = &done.moved_from {
        ui.print_note(&format!(
            "{} has moved from {from} to {}",
            project.id, done.project.worktree
        ));
    }
    if let Some(from) = &done.taken_from {
        ui.print_note(&format!("it belonged to project {from} before"));
    }
    ui.print_note(&format!(
        "{} moved along",
        number_format::format_counted(done.sessions.len(), "session")
    ));
    Ok(ProgramExit::Ok)
}

fn remove(ui: &mut Ui, app: &CliApp, args: &ProjectRemoveArgs) -> Result<ProgramExit, CliError> {
    let engine = app.open_engine()?;
    let ctx = app.context();
    let project = resolve_project(app, &engine, &args.project)?;
    let plan =
        engine.projects().plan_removal(&ctx, &project.id).map_err(worktree::worktree_error)?;
    if args.dry_run {
        return print_plan(ui, &plan).map(|()| ProgramExit::Ok);
    }
    if !args.yes {
        for line in plan_lines(&plan) {
            ui.print_note(&line);
        }
        if !ui.confirm(&format!("Remove project {} for good?", project.id))? {
            return Err(CliError::NotConfirmed);
        }
    }
    let done = engine
        .projects()
        .remove(&ctx, &project.id, args.force)
        .map_err(worktree::worktree_error)?;
    // The rows go now; if this is cut off, the next upkeep finishes it.
    while !engine.store().maintenance().purge_deleted(&ctx, 64)? {}
    if ui.wants_json() {
        print_plan(ui, &done.removal)?;
    }
    for (store, who) in &done.kept {
        ui.print_note(&format!("snapshot store {store} stays: it is in use ({who})"));
    }
    ui.print_note(&format!("removed project {}", project.id));
    Ok(ProgramExit::Ok)
}

fn print_plan(ui: &mut Ui, plan: &ProjectRemovalPlan) -> Result<(), CliError> {
    if ui.wants_json() {
        let worktrees: Vec<Value> = plan
            .worktrees
            .iter()
            .map(|(directory, work)| json!({ "directory": directory, "only_here": work }))
            .collect();
        let stores: Vec<Value> =
            plan.stores.iter().map(|(id, bytes)| json!({ "id": id, "bytes": bytes })).collect();
        return ui.print_json(&json!({
            "project": plan.project, "sessions": plan.sessions, "stores": stores,
            "worktrees": worktrees,
        }));
    }
    plan_lines(plan).iter().try_for_each(|line| ui.print_line(line))
}

fn plan_lines(plan: &ProjectRemovalPlan) -> Vec<String> {
    let mut lines: Vec<String> =
        plan.sessions.iter().map(|session| format!("session   {session}")).collect();
    for (store, bytes) in &plan.stores {
        lines.push(format!("store     {store}  ({})", number_format::format_size(*bytes)));
    }
    for (directory, work) in &plan.worktrees {
        let note = if work.is_empty() { String::new() } else { format!("  ({work})") };
        lines.push(format!("worktree  {}{note}", directory.display()));
    }
    lines
}
