//! `turnstone worktree`: further checkouts of a project, made and removed by turnstone.

use std::path::PathBuf;

use turnstone_core::id::ProjectId;
use turnstone_engine::{Engine, WorktreeError, WorktreePlan, WorktreeRequest};

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::text;
use crate::ui::{ColumnKind, TextTable, Ui};

/// What to do with worktrees.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum WorktreeCommand {
    Create(WorktreeCreateArgs),
    List(WorktreeListArgs),
    /// Put a worktree back to the default branch; ignored files stay
    ///
    /// Only worktrees turnstone made. Refused where work would go that exists nowhere else; with
    /// --force a snapshot is taken first.
    #[command(after_help = "Example:\n  turnstone worktree reset try-the-other-parser")]
    Reset(WorktreeTargetArgs),
    /// Remove a worktree, and the branch that was made for it
    ///
    /// Only worktrees turnstone made, and never a branch of yours. Refused where work would go that
    /// exists nowhere else; with --force a snapshot is taken first.
    #[command(after_help = "Example:\n  turnstone worktree remove try-the-other-parser")]
    Remove(WorktreeTargetArgs),
}

/// Make a worktree of this project, with a branch of its own
///
/// It is made in the data directory. Sessions in it belong to this project, and undo works there
/// apart from everywhere else.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone worktree create \"try the other parser\"")]
pub(crate) struct WorktreeCreateArgs {
    /// What to call it; without a name, two words are drawn
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// The commit or branch to begin with; without it, the present commit
    #[arg(long, value_name = "REV")]
    from: Option<String>,

    /// Make no branch
    #[arg(long)]
    detach: bool,
}

/// List the worktrees of this project
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone worktree list")]
pub(crate) struct WorktreeListArgs {}

/// Which worktree, and how sure somebody is.
#[derive(Debug, clap::Args)]
pub(crate) struct WorktreeTargetArgs {
    /// Its name or its directory
    #[arg(value_name = "NAME")]
    worktree: PathBuf,

    /// Even if it holds work that exists nowhere else
    #[arg(long)]
    force: bool,

    /// Print what would happen and stop
    #[arg(long)]
    dry_run: bool,
}

/// What is done to a worktree.
#[derive(Clone, Copy)]
enum WorktreeChange {
    Reset,
    Remove,
}

/// Runs one of them.
///
/// # Errors
///
/// What it answers.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &WorktreeCommand,
) -> Result<ProgramExit, CliError> {
    let engine = app.open_engine()?;
    let project = engine.projects().open(&app.context(), app.directory()?)?.project.id;
    match command {
        WorktreeCommand::Create(args) => create(ui, app, &engine, &project, args),
        WorktreeCommand::List(_) => list(ui, app, &engine, &project),
        WorktreeCommand::Reset(args) => {
            reset_or_remove(ui, app, &engine, &project, args, WorktreeChange::Reset)
        }
        WorktreeCommand::Remove(args) => {
            reset_or_remove(ui, app, &engine, &project, args, WorktreeChange::Remove)
        }
    }
}

/// A refusal in words for people.
pub(crate) fn worktree_error(error: WorktreeError) -> CliError {
    let what = error.to_string();
    let hint = match error {
        WorktreeError::UnsavedWork { .. } => "commit and push it, or use --force",
        WorktreeError::NotOurs(_) | WorktreeError::Primary(_) => {
            "`turnstone worktree list` shows those turnstone made"
        }
        WorktreeError::NotGit(_) => {
            "worktrees need git: `git init` and a commit; a fork in the same files needs neither"
        }
        WorktreeError::NoCapture { .. } => {
            "nothing is guessed; fork without --at, or without --worktree"
        }
        WorktreeError::NotCaptured { .. } => "fork without --worktree",
        WorktreeError::NotFilled { .. } => "try again",
        WorktreeError::NoCommit(_) => "make a commit first",
        WorktreeError::NoName(_) => "choose another name",
        WorktreeError::NoDefaultBranch(_) => "`git remote set-head origin --auto` may help",
        WorktreeError::LeftChanges { .. } => {
            "look at those files; the snapshot has the former ones"
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
    project: &ProjectId,
    args: &WorktreeCreateArgs,
) -> Result<ProgramExit, CliError> {
    let WorktreeCreateArgs { name, from, detach } = args.clone();
    let new = WorktreeRequest { name, detached: detach, from };
    let made = engine
        .projects()
        .worktrees()
        .create(&app.context(), project, &new)
        .map_err(worktree_error)?;
    match ui.wants_json() {
        true => ui.print_json(&serde_json::to_value(&made)?)?,
        false => ui.print_line(&made.directory.display().to_string())?,
    }
    let branch = made.branch.map(|branch| format!(" on branch {branch}")).unwrap_or_default();
    ui.print_note(&format!("made worktree {}{branch}", made.name));
    Ok(ProgramExit::Ok)
}

fn list(
    ui: &mut Ui,
    app: &CliApp,
    engine: &Engine,
    project: &ProjectId,
) -> Result<ProgramExit, CliError> {
    let listed =
        engine.projects().worktrees().list(&app.context(), project).map_err(worktree_error)?;
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
            (false, _) => "not there",
            (true, false) => "not made by turnstone",
            (true, true) => "",
        };
        let directory = it.directory.display().to_string();
        grid.add_row(&[it.name, it.branch.unwrap_or_default(), directory, note.to_owned()]);
    }
    ui.print_table(&grid)?;
    Ok(ProgramExit::Ok)
}

/// Resets or removes; both refuse what would be lost, and keep it in any case.
fn reset_or_remove(
    ui: &mut Ui,
    app: &CliApp,
    engine: &Engine,
    project: &ProjectId,
    args: &WorktreeTargetArgs,
    deed: WorktreeChange,
) -> Result<ProgramExit, CliError> {
    let WorktreeTargetArgs { worktree, force, dry_run } = args;
    let ctx = app.context();
    if *dry_run {
        let plan = match deed {
            WorktreeChange::Reset => {
                engine.projects().worktrees().plan_reset(&ctx, project, worktree)
            }
            WorktreeChange::Remove => {
                engine.projects().worktrees().plan_removal(&ctx, project, worktree)
            }
        };
        return print_plan(ui, &plan.map_err(worktree_error)?, *force);
    }
    let (value, capture, words) = match deed {
        WorktreeChange::Reset => {
            let done = engine
                .projects()
                .worktrees()
                .reset(&ctx, project, worktree, *force)
                .map_err(worktree_error)?;
            let words = vec![format!("{} stands at {}", done.directory.display(), done.commit)];
            (serde_json::to_value(&done)?, done.capture, words)
        }
        WorktreeChange::Remove => {
            let done = engine
                .projects()
                .worktrees()
                .remove(&ctx, project, worktree, *force)
                .map_err(worktree_error)?;
            let mut words = vec![format!("removed {}", done.directory.display())];
            if let Some((branch, commit)) = &done.branch {
                words.push(format!("its branch {branch} is gone too; it was at {commit}"));
            }
            (serde_json::to_value(&done)?, done.capture, words)
        }
    };
    if ui.wants_json() {
        ui.print_json(&value)?;
    }
    words.iter().for_each(|words| ui.print_note(words));
    if let Some(capture) = capture {
        ui.print_note(&format!("its files before are snapshot {capture}"));
    }
    Ok(ProgramExit::Ok)
}

/// Prints what would happen; the exit code is that of the refusal where there would be one.
fn print_plan(ui: &mut Ui, plan: &WorktreePlan, force: bool) -> Result<ProgramExit, CliError> {
    let line = |words: &str, what: &str| format!("{words:<9} {}", text::sanitize_line(what));
    let directory = plan.directory.display().to_string();
    let mut lines = Vec::new();
    match &plan.commit {
        Some(commit) => lines.push(line("reset", &format!("{directory} to {commit}"))),
        None => lines.push(line("remove", &directory)),
    }
    if let Some((branch, commit)) = &plan.branch {
        lines.push(line("branch", &format!("{branch} (at {commit})")));
    }
    lines.extend(plan.lost.changes.iter().map(|path| line("only here", path)));
    lines.extend(plan.lost.commits.iter().map(|commit| line("only here", commit)));
    match ui.wants_json() {
        true => ui.print_json(&serde_json::to_value(plan)?)?,
        false => lines.iter().try_for_each(|line| ui.print_line(line))?,
    }
    if plan.lost.is_empty() {
        return Ok(ProgramExit::Ok);
    }
    ui.print_note(&format!("it holds {}; a snapshot is taken first", plan.lost));
    match force {
        true => Ok(ProgramExit::Ok),
        false => {
            ui.print_hint("without --force it would be refused");
            Ok(ProgramExit::Refused)
        }
    }
}
