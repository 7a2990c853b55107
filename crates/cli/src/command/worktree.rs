//! `turnstone worktree`: further checkouts of a project, made and removed by turnstone.

use std::path::PathBuf;

use turnstone_core::id::ProjectId;
use turnstone_engine::{Engine, NewWorktree, WorktreeError, WorktreePlan};

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::text;
use crate::ui::{Column, Grid, Ui};

/// What to do with worktrees.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum WorktreeCommand {
    Create(CreateArgs),
    List(ListArgs),
    /// Put a worktree back to the default branch; ignored files stay
    ///
    /// Only worktrees turnstone made. Refused where work would go that exists nowhere else; with
    /// --force a snapshot is taken first.
    #[command(after_help = "Example:\n  turnstone worktree reset try-the-other-parser")]
    Reset(ChosenArgs),
    /// Remove a worktree, and the branch that was made for it
    ///
    /// Only worktrees turnstone made, and never a branch of yours. Refused where work would go that
    /// exists nowhere else; with --force a snapshot is taken first.
    #[command(after_help = "Example:\n  turnstone worktree remove try-the-other-parser")]
    Remove(ChosenArgs),
}

/// Make a worktree of this project, with a branch of its own
///
/// It is made in the data directory. Sessions in it belong to this project, and undo works there
/// apart from everywhere else.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone worktree create \"try the other parser\"")]
pub(crate) struct CreateArgs {
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
pub(crate) struct ListArgs {}

/// Which worktree, and how sure somebody is.
#[derive(Debug, clap::Args)]
pub(crate) struct ChosenArgs {
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
enum Deed {
    Reset,
    Remove,
}

/// Runs one of them.
///
/// # Errors
///
/// What it answers.
pub(crate) fn run(ui: &mut Ui, app: &App, command: &WorktreeCommand) -> Result<Exit, CliError> {
    let engine = app.engine()?;
    let project = engine.open_project(&app.context(), app.directory()?)?.project.id;
    match command {
        WorktreeCommand::Create(args) => create(ui, app, &engine, &project, args),
        WorktreeCommand::List(_) => list(ui, app, &engine, &project),
        WorktreeCommand::Reset(args) => change(ui, app, &engine, &project, args, Deed::Reset),
        WorktreeCommand::Remove(args) => change(ui, app, &engine, &project, args, Deed::Remove),
    }
}

/// A refusal in words for people.
pub(crate) fn refused(error: WorktreeError) -> CliError {
    let what = error.to_string();
    let hint = match error {
        WorktreeError::OnlyHere { .. } => "commit and push it, or use --force",
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
    app: &App,
    engine: &Engine,
    project: &ProjectId,
    args: &CreateArgs,
) -> Result<Exit, CliError> {
    let CreateArgs { name, from, detach } = args.clone();
    let new = NewWorktree { name, detached: detach, from };
    let made = engine.create_worktree(&app.context(), project, &new).map_err(refused)?;
    match ui.wants_json() {
        true => ui.json(&serde_json::to_value(&made)?)?,
        false => ui.line(&made.directory.display().to_string())?,
    }
    let branch = made.branch.map(|branch| format!(" on branch {branch}")).unwrap_or_default();
    ui.note(&format!("made worktree {}{branch}", made.name));
    Ok(Exit::Ok)
}

fn list(ui: &mut Ui, app: &App, engine: &Engine, project: &ProjectId) -> Result<Exit, CliError> {
    let listed = engine.list_worktrees(&app.context(), project).map_err(refused)?;
    if ui.wants_json() {
        ui.json(&serde_json::to_value(&listed)?)?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(&[
        ("NAME", Column::Text),
        ("BRANCH", Column::Text),
        ("DIRECTORY", Column::Cut),
        ("", Column::Text),
    ]);
    for it in listed {
        let note = match (it.ready, it.made) {
            (false, _) => "not there",
            (true, false) => "not made by turnstone",
            (true, true) => "",
        };
        let directory = it.directory.display().to_string();
        grid.row(&[it.name, it.branch.unwrap_or_default(), directory, note.to_owned()]);
    }
    ui.table(&grid)?;
    Ok(Exit::Ok)
}

/// Resets or removes; both refuse what would be lost, and keep it in any case.
fn change(
    ui: &mut Ui,
    app: &App,
    engine: &Engine,
    project: &ProjectId,
    args: &ChosenArgs,
    deed: Deed,
) -> Result<Exit, CliError> {
    let ChosenArgs { worktree, force, dry_run } = args;
    let ctx = app.context();
    if *dry_run {
        let plan = match deed {
            Deed::Reset => engine.plan_worktree_reset(&ctx, project, worktree),
            Deed::Remove => engine.plan_worktree_removal(&ctx, project, worktree),
        };
        return show(ui, &plan.map_err(refused)?, *force);
    }
    let (value, capture, words) = match deed {
        Deed::Reset => {
            let done = engine.reset_worktree(&ctx, project, worktree, *force).map_err(refused)?;
            let words = vec![format!("{} stands at {}", done.directory.display(), done.commit)];
            (serde_json::to_value(&done)?, done.capture, words)
        }
        Deed::Remove => {
            let done = engine.remove_worktree(&ctx, project, worktree, *force).map_err(refused)?;
            let mut words = vec![format!("removed {}", done.directory.display())];
            if let Some((branch, commit)) = &done.branch {
                words.push(format!("its branch {branch} is gone too; it was at {commit}"));
            }
            (serde_json::to_value(&done)?, done.capture, words)
        }
    };
    if ui.wants_json() {
        ui.json(&value)?;
    }
    words.iter().for_each(|words| ui.note(words));
    if let Some(capture) = capture {
        ui.note(&format!("its files before are snapshot {capture}"));
    }
    Ok(Exit::Ok)
}

/// Prints what would happen; the exit code is that of the refusal where there would be one.
fn show(ui: &mut Ui, plan: &WorktreePlan, force: bool) -> Result<Exit, CliError> {
    let line = |words: &str, what: &str| format!("{words:<9} {}", text::clean_line(what));
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
        true => ui.json(&serde_json::to_value(plan)?)?,
        false => lines.iter().try_for_each(|line| ui.line(line))?,
    }
    if plan.lost.is_nothing() {
        return Ok(Exit::Ok);
    }
    ui.note(&format!("it holds {}; a snapshot is taken first", plan.lost));
    match force {
        true => Ok(Exit::Ok),
        false => {
            ui.hint("without --force it would be refused");
            Ok(Exit::Refused)
        }
    }
}
