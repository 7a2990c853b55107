//! `git` for worktrees, in repositories and surroundings that mean no good.

use std::error::Error;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use turnstone_process::{
    Branch, Filters, Git, GitEnvironment, GitError, GitLimits, NewWorktree, Removal,
};

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// A repository with one commit, and a home with settings of its own.
struct Case {
    dir: TempDir,
}

impl Case {
    fn new() -> Fallible<Self> {
        let case = Self { dir: tempfile::tempdir()? };
        fs_err::create_dir_all(case.repo())?;
        fs_err::create_dir_all(case.at("home"))?;
        case.plain(&["init", "-q", "-b", "main"])?;
        fs_err::write(case.repo().join("file"), "one\n")?;
        case.plain(&["add", "."])?;
        case.plain(&["commit", "-q", "-m", "first"])?;
        Ok(case)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn repo(&self) -> PathBuf {
        self.at("repo")
    }

    fn environment(&self) -> GitEnvironment {
        let home = Some(self.at("home").into_os_string());
        GitEnvironment { path: OsString::from("/usr/bin:/bin"), home, config_home: None }
    }

    fn git(&self) -> Git {
        self.git_in(&self.repo())
    }

    fn git_in(&self, dir: &Path) -> Git {
        Git::new(dir, self.environment())
    }

    /// The user's own `git`.
    fn plain(&self, args: &[&str]) -> Fallible<String> {
        #[expect(clippy::disallowed_methods, reason = "git as the judge of itself")]
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
            .args(args)
            .env("HOME", self.at("home"))
            .current_dir(self.repo())
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// A program that leaves a trace when it is run.
    fn trap(&self, name: &str) -> Fallible<String> {
        let path = self.at(name);
        let trace = self.at("trace");
        fs_err::write(&path, format!("#!/bin/sh\necho {name} >> {}\ncat\n", trace.display()))?;
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(path.display().to_string())
    }

    fn trace(&self) -> String {
        fs_err::read_to_string(self.at("trace")).unwrap_or_default()
    }
}

#[test]
fn a_worktree_is_made_listed_and_removed() -> Fallible {
    let case = Case::new()?;
    let git = case.git();
    let head = git.find_commit("HEAD")?.ok_or("no commit")?;
    let path = case.at("tree with space\nand line");

    git.add_worktree(NewWorktree { path: &path, branch: Some("turn/one"), from: "HEAD" })?;
    let rows = git.list_worktrees()?;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].path, path);
    assert_eq!(rows[1].head.as_ref(), Some(&head));
    assert_eq!(rows[1].branch, Branch::Named("refs/heads/turn/one".to_owned()));
    let inside = case.git_in(&path);
    assert_eq!(inside.top_level()?, path);
    assert_eq!(inside.common_dir()?, case.repo().join(".git"));
    assert_eq!(inside.find_head_branch()?.as_deref(), Some("refs/heads/turn/one"));

    git.remove_worktree(&path, Removal::Clean)?;
    assert!(!path.exists());
    assert_eq!(git.list_branches()?, ["refs/heads/main", "refs/heads/turn/one"]);
    git.delete_branch("turn/one", &head)?;
    assert_eq!(git.list_branches()?, ["refs/heads/main"]);

    git.add_worktree(NewWorktree { path: &path, branch: None, from: &head })?;
    assert_eq!(git.list_worktrees()?[1].branch, Branch::Detached);
    assert_eq!(case.git_in(&path).find_head_branch()?, None);
    fs_err::remove_dir_all(&path)?;
    assert!(git.list_worktrees()?[1].prunable.is_some());
    git.prune_worktrees()?;
    assert_eq!(git.list_worktrees()?.len(), 1);
    Ok(())
}

#[test]
fn work_is_seen_before_it_could_be_lost() -> Fallible {
    let case = Case::new()?;
    let git = case.git();
    let path = case.at("tree");
    git.add_worktree(NewWorktree { path: &path, branch: Some("work"), from: "HEAD" })?;
    let inside = case.git_in(&path);
    assert!(inside.status()?.is_empty());
    assert!(git.list_unreachable_without("work", 10)?.is_empty());

    fs_err::create_dir(path.join("deep"))?;
    fs_err::write(path.join("deep/new file"), "x")?;
    fs_err::write(path.join("file"), "changed and longer\n")?;
    // A user who hides untracked files in every status does not hide them here.
    case.plain(&["config", "status.showUntrackedFiles", "no"])?;
    let changes = inside.status()?;
    assert_eq!(changes.len(), 2);
    assert_eq!((changes[0].index, changes[0].worktree), (b' ', b'M'));
    assert!(changes[1].is_untracked());
    assert_eq!(changes[1].path, Path::new("deep/new file"));
    let refused = git.remove_worktree(&path, Removal::Clean).unwrap_err();
    assert!(matches!(&refused, GitError::Failed { stderr, .. } if !stderr.is_empty()), "{refused}");
    assert!(path.join("deep/new file").exists());

    let tree = path.display().to_string();
    case.plain(&["-C", &tree, "add", "."])?;
    case.plain(&["-C", &tree, "commit", "-q", "-m", "only here"])?;
    let only = git.list_unreachable_without("work", 10)?;
    assert_eq!(only, [inside.find_commit("HEAD")?.ok_or("no commit")?]);
    case.plain(&["tag", "kept", "work"])?;
    assert!(git.list_unreachable_without("work", 10)?.is_empty());

    inside.reset_hard("main")?;
    assert!(!path.join("deep/new file").exists());
    // The branch has moved: it is not the one that was meant to be deleted any more.
    git.remove_worktree(&path, Removal::Force)?;
    assert!(git.delete_branch("work", &only[0]).is_err());
    Ok(())
}

#[test]
fn a_branch_in_use_is_not_deleted() -> Fallible {
    let case = Case::new()?;
    let head = case.git().find_commit("HEAD")?.ok_or("no commit")?;
    assert!(case.git().delete_branch("main", &head).is_err());
    assert_eq!(case.git().list_branches()?, ["refs/heads/main"]);
    Ok(())
}

#[test]
fn no_program_of_a_repository_or_its_surroundings_is_run() -> Fallible {
    let case = Case::new()?;
    for hook in ["post-checkout", "post-index-change", "reference-transaction", "post-commit"] {
        let program = case.trap(hook)?;
        fs_err::copy(program, case.repo().join(".git/hooks").join(hook))?;
    }
    for (setting, name) in [
        ("core.fsmonitor", "fsmonitor"),
        ("core.pager", "pager"),
        ("core.editor", "editor"),
        ("core.sshCommand", "ssh"),
        ("core.askPass", "askpass"),
        ("diff.external", "differ"),
        ("filter.bad.smudge", "smudge"),
        ("filter.bad.clean", "clean"),
        ("filter.bad.process", "process"),
        ("gpg.program", "gpg"),
        ("credential.helper", "helper"),
    ] {
        case.plain(&["config", setting, &case.trap(name)?])?;
    }
    case.plain(&["config", "filter.bad.required", "true"])?;
    fs_err::write(case.repo().join(".git/info/attributes"), "* filter=bad\n")?;
    fs_err::remove_file(case.at("trace")).ok();

    let git = case.git();
    let path = case.at("tree");
    git.add_worktree(NewWorktree { path: &path, branch: Some("b"), from: "HEAD" })?;
    let inside = case.git_in(&path);
    fs_err::write(path.join("file"), "two\n")?;
    assert_eq!(inside.status()?.len(), 1);
    inside.reset_hard("main")?;
    assert_eq!(fs_err::read_to_string(path.join("file"))?, "one\n");
    git.list_worktrees()?;
    git.remove_worktree(&path, Removal::Force)?;
    git.prune_worktrees()?;
    assert_eq!(case.trace(), "");
    Ok(())
}

#[test]
fn filters_run_where_they_are_asked_for() -> Fallible {
    let case = Case::new()?;
    case.plain(&["config", "filter.up.smudge", "tr a-z A-Z"])?;
    fs_err::write(case.repo().join(".git/info/attributes"), "* filter=up\n")?;
    let path = case.at("tree");
    let git = case.git().filters(Filters::On);
    git.add_worktree(NewWorktree { path: &path, branch: Some("b"), from: "HEAD" })?;
    assert_eq!(fs_err::read_to_string(path.join("file"))?, "ONE\n");
    Ok(())
}

#[test]
fn a_missing_git_is_said_to_be_missing() -> Fallible {
    let case = Case::new()?;
    let nowhere =
        GitEnvironment { path: case.at("home").into_os_string(), ..GitEnvironment::default() };
    let error = Git::new(case.repo(), nowhere).version().unwrap_err();
    assert!(matches!(error, GitError::Missing), "{error:?}");
    let error = case.git_in(&case.at("nowhere")).version().unwrap_err();
    assert!(matches!(error, GitError::Start { .. }), "{error:?}");
    assert!(case.git().version()?.starts_with('2'));
    Ok(())
}

#[test]
fn no_answer_is_not_taken_for_no() -> Fallible {
    let case = Case::new()?;
    assert_eq!(case.git().find_commit("no-such-branch")?, None);
    let outside = case.git_in(&case.at("home"));
    assert!(matches!(outside.find_commit("HEAD"), Err(GitError::Failed { .. })));
    assert!(matches!(outside.find_head_branch(), Err(GitError::Failed { .. })));
    assert!(matches!(outside.top_level(), Err(GitError::Failed { .. })));
    // A ref that names nothing readable.
    fs_err::write(case.repo().join(".git/refs/heads/bad"), "nonsense\n")?;
    assert!(case.git().list_branches().is_err() || case.git().find_commit("bad").is_err());
    Ok(())
}

#[test]
fn names_that_look_like_options_are_refused() -> Fallible {
    let case = Case::new()?;
    let git = case.git();
    for name in ["--upload-pack=x", "-f", "", "a\nb"] {
        assert!(matches!(git.find_commit(name), Err(GitError::BadName { .. })), "{name:?}");
        assert!(matches!(git.reset_hard(name), Err(GitError::BadName { .. })), "{name:?}");
        assert!(matches!(git.delete_branch(name, "x"), Err(GitError::BadName { .. })));
    }
    let relative = NewWorktree { path: Path::new("relative"), branch: None, from: "HEAD" };
    assert!(matches!(git.add_worktree(relative), Err(GitError::BadName { .. })));
    Ok(())
}

#[test]
fn limits_of_time_and_size_hold() -> Fallible {
    let case = Case::new()?;
    // A `git` that never ends, and one that never stops talking.
    for (script, timed_out) in [("exec sleep 1000", true), ("exec yes", false)] {
        let bin = case.at("bin");
        fs_err::create_dir_all(&bin)?;
        fs_err::write(bin.join("git"), format!("#!/bin/sh\n{script}\n"))?;
        fs_err::set_permissions(bin.join("git"), std::fs::Permissions::from_mode(0o755))?;
        let mut path = bin.into_os_string();
        path.push(":/usr/bin:/bin");
        let time = Duration::from_millis(if timed_out { 100 } else { 60_000 });
        let git = Git::new(case.repo(), GitEnvironment { path, ..GitEnvironment::default() })
            .limits(GitLimits { time, output: 100_000 });
        let error = git.version().unwrap_err();
        let expected = if timed_out {
            matches!(error, GitError::TimedOut { .. })
        } else {
            matches!(error, GitError::TooMuch { .. })
        };
        assert!(expected, "{script}: {error:?}");
    }
    Ok(())
}
