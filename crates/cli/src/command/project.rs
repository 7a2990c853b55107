//! `turnstone project`: list, relink, remove.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_core::model::Project;
use turnstone_engine::{Engine, ProjectRemovalPlan};

use crate::app::CliApp;
use crate::command::{session, worktree};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Subcommands of `project`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ProjectCommand {
    List(ProjectListArgs),
    Relink(RelinkArgs),
    Remove(ProjectRemoveArgs),
}

/// List projects and their directories
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone project list")]
pub(crate) struct ProjectListArgs {}

/// Link a directory to a project, for example after moving it
///
/// If the project's directory no longer exists, DIR replaces it and its sessions follow; otherwise DIR
/// is added as another directory of the project. Sessions started in DIR become part of the project.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone project relink 4b825dc6 ~/work/app")]
pub(crate) struct RelinkArgs {
    /// Project ID or unique prefix
    #[arg(value_name = "ID")]
    project: IdPrefix,

    /// Directory to link [default: the current directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Delete a project's sessions, snapshots and the worktrees Turnstone created for it
///
/// The project's own directories do not change. This cannot be undone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone project remove 4b825dc6 --dry-run")]
pub(crate) struct ProjectRemoveArgs {
    /// Project ID or unique prefix
    #[arg(value_name = "ID")]
    project: IdPrefix,

    /// Show what would be deleted and exit
    #[arg(long)]
    dry_run: bool,

    /// Also delete worktrees with uncommitted or unpushed work
    #[arg(long)]
    force: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Runs a subcommand.
///
/// # Errors
///
/// The error of the subcommand.
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
        let mut listed = serde_json::to_value(&listed)?;
        listed.as_array_mut().into_iter().flatten().for_each(rename_own_fields);
        ui.print_json(&listed)?;
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
            (true, more) => format!("and {more} more"),
        };
        grid.add_row(&[id.to_string(), it.sessions.to_string(), worktree.clone(), note]);
    }
    ui.print_table(&grid)?;
    if listed.iter().any(|it| !it.exists) {
        ui.print_hint("if a project has moved, run `turnstone project relink ID DIR`");
    }
    Ok(ProgramExit::Ok)
}

/// Gives the fields that OpenCode's projects do not have the names that all of our own fields have.
fn rename_own_fields(listed: &mut Value) {
    let Some(project) = listed["project"].as_object_mut() else { return };
    let names = [
        ("recordedRoots", "recorded_roots"),
        ("importedPermission", "imported_permission"),
        ("importedApprovals", "imported_approvals"),
    ];
    for (stored, shown) in names {
        if let Some(value) = project.remove(stored) {
            project.insert(shown.to_owned(), value);
        }
    }
}

/// Resolves a project.
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
            "project {} moved from {from} to {}",
            project.id, done.project.worktree
        ));
    }
    if let Some(from) = &done.taken_from {
        ui.print_note(&format!("the directory belonged to project {from} before"));
    }
    ui.print_note(&format!(
        "{} moved to project {}",
        number_format::format_counted(done.sessions.len(), "session"),
        project.id
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
        if !ui.confirm(&format!("Permanently remove project {}?", project.id))? {
            return Err(CliError::NotConfirmed);
        }
    }
    let done = engine
        .projects()
        .remove(&ctx, &project.id, args.force)
        .map_err(worktree::worktree_error)?;
    if ui.wants_json() {
        print_plan(ui, &done.removal)?;
    }
    session::finish_deletions(ui, app, &engine)?;
    for (store, who) in &done.kept {
        ui.print_note(&format!("snapshot store {store} was kept: in use by {who}"));
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
