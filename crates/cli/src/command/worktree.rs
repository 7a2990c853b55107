//! `turnstone worktree`: git worktrees that Turnstone creates and removes.

use std::path::{Path, PathBuf};

use turnstone_core::model::Project;
use turnstone_engine::{Engine, WorktreeError, WorktreeInfo, WorktreePlan, WorktreeRequest};
use turnstone_store::Context;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::text;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Subcommands of `worktree`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum WorktreeCommand {
    Create(WorktreeCreateArgs),
    List(WorktreeListArgs),
    /// Reset a worktree to the default branch; ignored files stay
    ///
    /// Works only for worktrees that Turnstone created. Refused if uncommitted or unpushed work would
    /// be lost; with --force, its files are captured first.
    #[command(after_help = "Example:\n  turnstone worktree reset try-the-other-parser")]
    Reset(WorktreeTargetArgs),
    /// Remove a worktree and the branch created for it
    ///
    /// Works only for worktrees that Turnstone created, and never removes your own branches. Refused if
    /// uncommitted or unpushed work would be lost; with --force, its files are captured first.
    #[command(after_help = "Example:\n  turnstone worktree remove try-the-other-parser")]
    Remove(WorktreeTargetArgs),
}

/// Create a worktree of this project with its own branch
///
/// The worktree is created in the data directory. Its sessions belong to this project. An undo there
/// affects other worktrees only if the undone turn itself changed them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone worktree create \"try the other parser\"")]
pub(crate) struct WorktreeCreateArgs {
    /// Name of the worktree [default: a random name]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Commit or branch to check out [default: the current commit]
    #[arg(long, value_name = "REV")]
    from: Option<String>,

    /// Do not create a branch
    #[arg(long)]
    detach: bool,
}

/// List the worktrees of this project
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone worktree list")]
pub(crate) struct WorktreeListArgs {}

/// Arguments of `reset` and `remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct WorktreeTargetArgs {
    /// Name or directory of the worktree
    #[arg(value_name = "NAME")]
    worktree: PathBuf,

    /// Proceed even if uncommitted or unpushed work would be lost
    #[arg(long)]
    force: bool,

    /// Show what would happen and exit
    #[arg(long)]
    dry_run: bool,
}

/// Change to a worktree.
#[derive(Clone, Copy)]
enum WorktreeChange {
    Reset,
    Remove,
}

/// Runs a subcommand.
///
/// # Errors
///
/// The error of the subcommand.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &WorktreeCommand,
) -> Result<ProgramExit, CliError> {
    let engine = app.open_engine()?;
    // A refused command stores no project.
    let project = engine.projects().find_or_derive(&app.context(), app.directory()?)?.project;
    match command {
        WorktreeCommand::Create(args) => create(ui, app, &engine, &project, args),
        WorktreeCommand::List(_) => list(ui, &engine, &project),
        WorktreeCommand::Reset(args) => {
            reset_or_remove(ui, app, &engine, &project, args, WorktreeChange::Reset)
        }
        WorktreeCommand::Remove(args) => {
            reset_or_remove(ui, app, &engine, &project, args, WorktreeChange::Remove)
        }
    }
}

/// Creates a worktree of the project of `directory`, which is stored only if that is possible.
///
/// # Errors
///
/// See [`WorktreeError`].
pub(crate) fn create_worktree(
    engine: &Engine,
    ctx: &Context,
    directory: &Path,
    project: &Project,
    new: &WorktreeRequest,
) -> Result<WorktreeInfo, CliError> {
    let worktrees = engine.projects().worktrees();
    worktrees.check_source(project, new).map_err(worktree_error)?;
    let stored = engine.projects().open(ctx, directory)?.project.id;
    worktrees.create(ctx, &stored, new).map_err(worktree_error)
}

/// Adds a hint to a refusal.
pub(crate) fn worktree_error(error: WorktreeError) -> CliError {
    let what = error.to_string();
    let hint = match error {
        WorktreeError::UnsavedWork { .. } => "commit and push it, or use --force",
        WorktreeError::NotOurs(_) | WorktreeError::Primary(_) => {
            "`turnstone worktree list` shows the worktrees Turnstone created"
        }
        WorktreeError::NotGit(_) => {
            "a worktree needs a git repository with a commit; leave --worktree out to work without one"
        }
        WorktreeError::NoCapture { .. } => "fork without --at or without --worktree",
        WorktreeError::NotCaptured { .. } => "fork without --worktree",
        WorktreeError::NotFilled { .. } => "try again",
        WorktreeError::NoCommit(_) => "create a commit first",
        WorktreeError::NoName(_) => "choose another name",
        WorktreeError::NoDefaultBranch(_) => "`git remote set-head origin --auto` may help",
        WorktreeError::LeftChanges { .. } => {
            "check these files; the snapshot has their previous content"
        }
        WorktreeError::Git(error) => {
            return CliError::Refused { what, hint: error.hint().map(str::to_owned) };
        }
        WorktreeError::Engine(error) => return error.into(),
    };
    CliError::Refused { what, hint: Some(hint.to_owned()) }
}

fn create(
    ui: &mut Ui,
    app: &CliApp,
    engine: &Engine,
    project: &Project,
    args: &WorktreeCreateArgs,
) -> Result<ProgramExit, CliError> {
    let WorktreeCreateArgs { name, from, detach } = args.clone();
    let new = WorktreeRequest { name, detached: detach, from };
    let created = create_worktree(engine, &app.context(), app.directory()?, project, &new)?;
    match ui.wants_json() {
        true => ui.print_json(&serde_json::to_value(&created)?)?,
        false => ui.print_line(&created.directory.display().to_string())?,
    }
    let branch = created.branch.map(|branch| format!(" on branch {branch}")).unwrap_or_default();
    ui.print_note(&format!("created worktree {}{branch}", created.name));
    Ok(ProgramExit::Ok)
}

fn list(ui: &mut Ui, engine: &Engine, project: &Project) -> Result<ProgramExit, CliError> {
    let listed = engine.projects().worktrees().list(project).map_err(worktree_error)?;
    if ui.wants_json() {
        ui.print_json(&serde_json::to_value(&listed)?)?;
        return Ok(ProgramExit::Ok);
    }
    let mut grid = TextTable::new(&[
        ("NAME", ColumnKind::Text),
        ("BRANCH", ColumnKind::Text),
        ("DIRECTORY", ColumnKind::Truncated),
        ("", ColumnKind::Text),
    ]);
    for it in listed {
        let note = match (it.ready, it.made) {
            (false, _) => "missing",
            (true, false) => "not created by Turnstone",
            (true, true) => "",
        };
        let directory = it.directory.display().to_string();
        grid.add_row(&[it.name, it.branch.unwrap_or_default(), directory, note.to_owned()]);
    }
    ui.print_table(&grid)?;
    Ok(ProgramExit::Ok)
}

/// Resets or removes; refuses to lose work without --force and takes a snapshot of it in any case.
fn reset_or_remove(
    ui: &mut Ui,
    app: &CliApp,
    engine: &Engine,
    project: &Project,
    args: &WorktreeTargetArgs,
    change: WorktreeChange,
) -> Result<ProgramExit, CliError> {
    let WorktreeTargetArgs { worktree, force, dry_run } = args;
    let ctx = app.context();
    if engine.store().read(&ctx, |r| r.projects().find(&project.id))?.is_none() {
        return Err(worktree_error(WorktreeError::NotOurs(worktree.clone())));
    }
    let project = &project.id;
    if *dry_run {
        let plan = match change {
            WorktreeChange::Reset => {
                engine.projects().worktrees().plan_reset(&ctx, project, worktree)
            }
            WorktreeChange::Remove => {
                engine.projects().worktrees().plan_removal(&ctx, project, worktree)
            }
        };
        return print_plan(ui, &plan.map_err(worktree_error)?, *force);
    }
    let (value, capture, messages) = match change {
        WorktreeChange::Reset => {
            let done = engine
                .projects()
                .worktrees()
                .reset(&ctx, project, worktree, *force)
                .map_err(worktree_error)?;
            let messages = vec![format!("reset {} to {}", done.directory.display(), done.commit)];
            (serde_json::to_value(&done)?, done.capture, messages)
        }
        WorktreeChange::Remove => {
            let done = engine
                .projects()
                .worktrees()
                .remove(&ctx, project, worktree, *force)
                .map_err(worktree_error)?;
            let mut messages = vec![format!("removed {}", done.directory.display())];
            if let Some((branch, commit)) = &done.branch {
                messages.push(format!("removed its branch {branch}, which was at {commit}"));
            }
            (serde_json::to_value(&done)?, done.capture, messages)
        }
    };
    if ui.wants_json() {
        ui.print_json(&value)?;
    }
    messages.iter().for_each(|message| ui.print_note(message));
    if let Some(capture) = capture {
        ui.print_note(&format!("its previous files are in capture {capture}"));
    }
    Ok(ProgramExit::Ok)
}

/// Prints the plan; exits as the real command would.
fn print_plan(ui: &mut Ui, plan: &WorktreePlan, force: bool) -> Result<ProgramExit, CliError> {
    let line = |label: &str, what: &str| format!("{label:<9} {}", text::sanitize_line(what));
    let directory = plan.directory.display().to_string();
    let mut lines = Vec::new();
    match &plan.commit {
        Some(commit) => lines.push(line("reset", &format!("{directory} to {commit}"))),
        None => lines.push(line("remove", &directory)),
    }
    if let Some((branch, commit)) = &plan.branch {
        lines.push(line("branch", &format!("{branch} (at {commit})")));
    }
    lines.extend(plan.lost.changes.iter().map(|path| line("unsaved", path)));
    lines.extend(plan.lost.commits.iter().map(|commit| line("unpushed", commit)));
    match ui.wants_json() {
        true => ui.print_json(&serde_json::to_value(plan)?)?,
        false => lines.iter().try_for_each(|line| ui.print_line(line))?,
    }
    if plan.lost.is_empty() {
        return Ok(ProgramExit::Ok);
    }
    ui.print_note(&format!("the worktree has {}; its files would be captured first", plan.lost));
    match force {
        true => Ok(ProgramExit::Ok),
        false => {
            ui.print_hint("this needs --force");
            Ok(ProgramExit::Refused)
        }
    }
}
