//! Every git command we use, in every repository that tries to run a program.

use std::error::Error;
use std::path::Path;

use turnstone_process::{Git, GitEnvironment, GitError, GitRepository, GitWorktreeRequest};
use turnstone_testkit::tripwire::{HostileRepository, TRIPWIRES, Tripwire, TripwireTrigger};

/// The repository of a folder, as a `.git` in it or above it says, without any check.
fn repository(directory: &Path) -> Result<GitRepository, Box<dyn Error>> {
    let has_git = |folder: &&Path| folder.join(".git").exists();
    let worktree = directory.ancestors().find(has_git).ok_or("no repository")?;
    let text = fs_err::read_to_string(worktree.join(".git")).unwrap_or_default();
    let git_dir = match text.strip_prefix("gitdir: ") {
        Some(path) => fs_err::canonicalize(worktree.join(path.trim_end()))?,
        None => worktree.join(".git"),
    };
    let common_dir = match fs_err::read_to_string(git_dir.join("commondir")) {
        Ok(path) => fs_err::canonicalize(git_dir.join(path.trim_end()))?,
        Err(_) => git_dir.clone(),
    };
    Ok(GitRepository { worktree: worktree.to_owned(), git_dir, common_dir })
}

fn git(hostile: &HostileRepository, directory: &Path) -> Result<Git, Box<dyn Error>> {
    let home = Some(hostile.home().into_os_string());
    let mut path = hostile.sibling_path("bin").into_os_string();
    path.push(":/usr/bin:/bin");
    let env = GitEnvironment { path, home, config_home: None };
    Ok(Git::new(repository(directory)?, env))
}

/// Lets git fail in a hostile repository, but for the reasons that are expected of one.
fn tolerate<T>(tripwire: &Tripwire, answer: Result<T, GitError>) -> Result<Option<T>, GitError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        // The content of a file is missing, and nothing is fetched.
        Err(GitError::Failed { .. }) if tripwire.name.starts_with("promisor") => Ok(None),
        // An empty repository has no commit.
        Err(GitError::Failed { .. }) if tripwire.name == ".git file" => Ok(None),
        Err(GitError::ConditionalInclude { .. }) if tripwire.name.starts_with("include on") => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Runs every command.
fn run_all(tripwire: &Tripwire, hostile: &HostileRepository) -> Result<(), Box<dyn Error>> {
    let git = git(hostile, hostile.directory())?;
    let head = git.history().find_commit("HEAD")?;
    git.history().find_head_branch()?;
    git.history().find_default_branch()?;
    git.history().list_root_commits()?;
    git.history().is_shallow()?;
    git.find_remote("origin")?;
    git.history().list_unnamed_commits(10)?;
    git.worktrees().list()?;
    git.worktrees().prune()?;
    let changes = git.status()?;
    ensure(!changes.is_empty(), || "no change is seen".to_owned())?;
    tolerate(tripwire, git.diff_since(head.as_deref(), 3))?;
    tolerate(tripwire, git.diff_since(None, 3))?;
    tolerate(tripwire, git.diff_summary_since(head.as_deref()))?;
    git.names_by_sha1()?;
    let Some(head) = head else { return Ok(()) };
    tolerate(tripwire, git.history().find_merge_base("refs/heads/other", &head))?;
    let path = hostile.sibling_path("tree");
    for branch in [Some("turn/one"), None] {
        let new = GitWorktreeRequest { path: &path, branch, from: &head };
        if tolerate(tripwire, git.worktrees().add(new))?.is_none() {
            ensure(!path.exists(), || "what failed was not removed".to_owned())?;
            continue;
        }
        run_inside(hostile, &path)?;
        git.worktrees().remove(&path)?;
    }
    if git.history().find_commit("refs/heads/turn/one")?.is_some() {
        git.history().list_commits_only_on("turn/one", 10)?;
        let tip = git.history().find_commit("refs/heads/turn/one")?.ok_or("no branch")?;
        git.history().delete_branch("turn/one", &tip)?;
    }
    tolerate(tripwire, git.reset_hard(&head))?;
    git.remove_untracked()?;
    Ok(())
}

/// Runs what is run in a worktree that was created there.
fn run_inside(hostile: &HostileRepository, path: &Path) -> Result<(), Box<dyn Error>> {
    let inside = git(hostile, path)?;
    // No filter has converted it.
    let text = fs_err::read_to_string(path.join("a.txt"))?;
    ensure(text == "six\n", || format!("a.txt is {text:?}"))?;
    fs_err::write(path.join("a.txt"), "ten\n")?;
    fs_err::write(path.join("more.txt"), "more\n")?;
    let changes = inside.status()?;
    ensure(changes.len() == 2, || format!("{changes:?}"))?;
    inside.diff_since(Some("HEAD"), 3)?;
    inside.reset_hard("refs/remotes/origin/main")?;
    inside.remove_untracked()?;
    let changes = inside.status()?;
    ensure(changes.is_empty(), || format!("{changes:?}"))?;
    Ok(())
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

/// Shows that plain git runs the program; where it cannot, prints why.
#[expect(clippy::print_stdout, reason = "a person who reads the log learns what is not proven")]
fn check_tripwire_fires(tripwire: &Tripwire) -> Result<(), String> {
    let name = tripwire.name;
    match tripwire.trigger {
        TripwireTrigger::Command(args) => {
            let fired = !tripwire.create().run_and_take_trace(args).is_empty();
            return ensure(fired, || "plain git does not fire it: it proves nothing".to_owned());
        }
        TripwireTrigger::CommandIfSupported(args)
            if tripwire.create().run_and_take_trace(args).is_empty() =>
        {
            println!("{name:?} is not fired by this version of git");
        }
        TripwireTrigger::CommandIfSupported(_) => {}
        TripwireTrigger::Untestable(reason) => println!("{name:?} cannot be fired: {reason}"),
    }
    Ok(())
}

#[test]
fn no_git_command_runs_a_program_of_a_repository() {
    let mut mistakes = Vec::new();
    for tripwire in TRIPWIRES {
        let mut note = |what: String| mistakes.push(format!("{}: {what}", tripwire.name));
        if let Err(what) = check_tripwire_fires(tripwire) {
            note(what);
        }
        let hostile = tripwire.create();
        if let Err(error) = run_all(tripwire, &hostile) {
            note(error.to_string());
        }
        let trace = hostile.take_trace();
        if !trace.is_empty() {
            note(format!("it ran {trace}"));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// A new command has to be added above.
#[test]
fn tripwire_test_covers_every_git_command() {
    let sources = [
        include_str!("../../src/git/operation.rs"),
        include_str!("../../src/git/diff.rs"),
        include_str!("../../src/git/run.rs"),
    ];
    let test = include_str!("tripwire.rs");
    // They start no git in a repository.
    let exempt = ["new", "limits", "repository", "git_version"];
    let lines = sources.iter().flat_map(|source| source.lines());
    let names = lines.filter_map(|line| line.trim_start().strip_prefix("pub fn "));
    let names = names.filter_map(|rest| rest.split(['(', '<']).next());
    let missing: Vec<_> = names
        .filter(|name| !exempt.contains(name) && !test.contains(&format!(".{name}(")))
        .collect();
    assert_eq!(missing, [""; 0]);
}
