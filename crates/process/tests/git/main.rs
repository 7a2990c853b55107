//! `git` for worktrees, in repositories and surroundings that mean no good.

mod blocking;
mod tripwire;

use std::error::Error;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use turnstone_process::{
    ChangeKind, Git, GitEnvironment, GitError, GitLimits, GitRepository, GitWorktreeRequest,
    WorktreeCheckout, git_version,
};

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// A repository with one commit, and a home with settings of its own.
struct GitFixture {
    dir: TempDir,
}

impl GitFixture {
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

    /// Git in a linked worktree of the repository, or in its main one.
    fn git_in(&self, dir: &Path) -> Git {
        Git::new(self.repository(dir), self.environment())
    }

    fn repository(&self, dir: &Path) -> GitRepository {
        let common_dir = self.repo().join(".git");
        let text = fs_err::read_to_string(dir.join(".git")).unwrap_or_default();
        let linked = text.strip_prefix("gitdir: ").map(|path| PathBuf::from(path.trim_end()));
        let git_dir = linked.unwrap_or_else(|| dir.join(".git"));
        GitRepository { worktree: dir.to_owned(), git_dir, common_dir }
    }

    /// The local branches, as the user's own `git` lists them.
    fn branches(&self) -> Fallible<Vec<String>> {
        let names = self.plain(&["for-each-ref", "--format=%(refname)", "refs/heads"])?;
        Ok(names.lines().map(str::to_owned).collect())
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
}

#[test]
fn worktree_is_created_listed_and_removed() -> Fallible {
    let case = GitFixture::new()?;
    let git = case.git();
    let head = git.history().find_commit("HEAD")?.ok_or("no commit")?;
    let path = case.at("tree with space\nand line");

    git.worktrees().add(GitWorktreeRequest {
        path: &path,
        branch: Some("turn/one"),
        from: "HEAD",
    })?;
    let rows = git.worktrees().list()?;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].path, path);
    assert_eq!(rows[1].head.as_ref(), Some(&head));
    assert_eq!(rows[1].branch, WorktreeCheckout::Named("refs/heads/turn/one".to_owned()));
    let inside = case.git_in(&path);
    assert_eq!(inside.history().find_head_branch()?.as_deref(), Some("refs/heads/turn/one"));

    git.worktrees().remove(&path)?;
    assert!(!path.exists());
    assert_eq!(case.branches()?, ["refs/heads/main", "refs/heads/turn/one"]);
    git.history().delete_branch("turn/one", &head)?;
    assert_eq!(case.branches()?, ["refs/heads/main"]);

    git.worktrees().add(GitWorktreeRequest { path: &path, branch: None, from: &head })?;
    assert_eq!(git.worktrees().list()?[1].branch, WorktreeCheckout::Detached);
    assert_eq!(case.git_in(&path).history().find_head_branch()?, None);
    fs_err::remove_dir_all(&path)?;
    assert!(git.worktrees().list()?[1].prunable.is_some());
    git.worktrees().prune()?;
    assert_eq!(git.worktrees().list()?.len(), 1);
    Ok(())
}

#[test]
fn uncommitted_and_unreachable_work_is_listed() -> Fallible {
    let case = GitFixture::new()?;
    let git = case.git();
    let path = case.at("tree");
    git.worktrees().add(GitWorktreeRequest { path: &path, branch: Some("work"), from: "HEAD" })?;
    let inside = case.git_in(&path);
    assert!(inside.status()?.is_empty());
    assert!(git.history().list_commits_only_on("work", 10)?.is_empty());

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
    case.plain(&["worktree", "lock", &path.display().to_string()])?;
    let refused = git.worktrees().remove(&path).unwrap_err();
    assert!(matches!(&refused, GitError::Failed { stderr, .. } if !stderr.is_empty()), "{refused}");
    assert!(path.join("deep/new file").exists());
    case.plain(&["worktree", "unlock", &path.display().to_string()])?;

    let tree = path.display().to_string();
    case.plain(&["-C", &tree, "add", "."])?;
    case.plain(&["-C", &tree, "commit", "-q", "-m", "only here"])?;
    let only = git.history().list_commits_only_on("work", 10)?;
    assert_eq!(only, [inside.history().find_commit("HEAD")?.ok_or("no commit")?]);
    case.plain(&["tag", "kept", "work"])?;
    assert!(git.history().list_commits_only_on("work", 10)?.is_empty());

    inside.reset_hard("main")?;
    assert!(!path.join("deep/new file").exists());
    // The branch has moved: it is not the one that was meant to be deleted any more.
    git.worktrees().remove(&path)?;
    assert!(git.history().delete_branch("work", &only[0]).is_err());
    Ok(())
}

#[test]
fn checked_out_branch_is_not_deleted() -> Fallible {
    let case = GitFixture::new()?;
    let head = case.git().history().find_commit("HEAD")?.ok_or("no commit")?;
    assert!(case.git().history().delete_branch("main", &head).is_err());
    assert_eq!(case.branches()?, ["refs/heads/main"]);
    Ok(())
}

#[test]
fn missing_git_is_reported() -> Fallible {
    let case = GitFixture::new()?;
    let nowhere =
        GitEnvironment { path: case.at("home").into_os_string(), ..GitEnvironment::default() };
    let error = git_version(&nowhere).unwrap_err();
    assert!(matches!(error, GitError::Missing), "{error:?}");
    let error = Git::new(case.repository(&case.repo()), nowhere).status().unwrap_err();
    assert!(matches!(error, GitError::Missing), "{error:?}");
    let error = case.git_in(&case.at("nowhere")).status().unwrap_err();
    assert!(matches!(error, GitError::Start { .. }), "{error:?}");
    assert!(git_version(&case.environment())?.starts_with('2'));
    Ok(())
}

#[test]
fn git_failure_is_not_taken_for_absence() -> Fallible {
    let case = GitFixture::new()?;
    assert_eq!(case.git().history().find_commit("no-such-branch")?, None);
    let outside = case.git_in(&case.at("home"));
    assert!(matches!(outside.history().find_commit("HEAD"), Err(GitError::Failed { .. })));
    assert!(matches!(outside.history().find_head_branch(), Err(GitError::Failed { .. })));
    // A ref that names nothing readable.
    fs_err::write(case.repo().join(".git/refs/heads/bad"), "nonsense\n")?;
    assert!(case.git().history().find_commit("bad").is_err());
    Ok(())
}

#[test]
fn option_like_names_are_rejected() -> Fallible {
    let case = GitFixture::new()?;
    let git = case.git();
    for name in ["--upload-pack=x", "-f", "", "a\nb"] {
        assert!(
            matches!(git.history().find_commit(name), Err(GitError::BadName { .. })),
            "{name:?}"
        );
        assert!(matches!(git.reset_hard(name), Err(GitError::BadName { .. })), "{name:?}");
        assert!(matches!(git.history().delete_branch(name, "x"), Err(GitError::BadName { .. })));
    }
    let relative = GitWorktreeRequest { path: Path::new("relative"), branch: None, from: "HEAD" };
    assert!(matches!(git.worktrees().add(relative), Err(GitError::BadName { .. })));
    Ok(())
}

#[test]
fn git_memory_is_bounded() -> Fallible {
    let case = GitFixture::new()?;
    fs_err::write(case.repo().join("file"), "changed\n")?;
    // Read whole, where git looks for untracked files: 8 GB of nothing.
    fs_err::create_dir_all(case.repo().join("deep"))?;
    fs_err::write(case.repo().join("deep/new"), "")?;
    let excludes = fs_err::File::create(case.repo().join("deep/.gitignore"))?;
    excludes.set_len(8 << 30)?;
    let refused = case.git().status();
    let is_bounded = matches!(&refused, Err(GitError::Failed { .. }));
    assert!(is_bounded, "{refused:?}");
    fs_err::remove_file(case.repo().join("deep/.gitignore"))?;
    assert!(!case.git().diff_since(Some("HEAD"), 3)?.is_empty());
    Ok(())
}

#[test]
fn large_files_are_diffed_as_binary() -> Fallible {
    let case = GitFixture::new()?;
    case.plain(&["config", "core.bigFileThreshold", "1g"])?;
    fs_err::write(case.repo().join("file"), "line\n".repeat(4 << 20))?;
    let patch = case.git().diff_since(Some("HEAD"), 3)?;
    let patch = String::from_utf8_lossy(&patch);
    assert!(patch.contains("Binary files") && patch.len() < 1_000, "{} bytes", patch.len());
    Ok(())
}

#[test]
fn a_missing_commit_is_an_error_and_not_an_absence() -> Fallible {
    let case = GitFixture::new()?;
    assert_eq!(case.git().history().find_commit("refs/heads/none")?, None);
    let objects = case.repo().join(".git/objects");
    fs_err::remove_dir_all(&objects)?;
    fs_err::create_dir(&objects)?;
    let refused = case.git().history().find_commit("HEAD");
    assert!(matches!(&refused, Err(GitError::Failed { .. })), "{refused:?}");
    Ok(())
}

#[test]
fn a_summary_counts_what_the_patch_shows() -> Fallible {
    let case = GitFixture::new()?;
    for name in ["gone", "a\tb\nc", "kind", "bytes", "mode"] {
        fs_err::write(case.repo().join(name), "one\ntwo\n")?;
    }
    case.plain(&["add", "."])?;
    case.plain(&["commit", "-q", "-m", "second"])?;
    fs_err::remove_file(case.repo().join("gone"))?;
    fs_err::remove_file(case.repo().join("kind"))?;
    std::os::unix::fs::symlink("file", case.repo().join("kind"))?;
    fs_err::write(case.repo().join("a\tb\nc"), "one\n2\n3\n")?;
    fs_err::write(case.repo().join("bytes"), [0, 1])?;
    let executable = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(case.repo().join("mode"), executable)?;
    fs_err::write(case.repo().join("new"), "n\n")?;
    case.plain(&["add", "--intent-to-add", "new"])?;
    let summary = case.git().diff_summary_since(Some("HEAD"))?;
    let rows: Vec<_> = summary
        .iter()
        .map(|row| (row.path.to_string_lossy(), row.kind, row.additions, row.deletions))
        .collect();
    let wanted = [
        ("a\tb\nc", ChangeKind::Modified, 2, 1),
        ("bytes", ChangeKind::Modified, 0, 0),
        ("gone", ChangeKind::Deleted, 0, 2),
        ("kind", ChangeKind::Modified, 1, 2),
        ("mode", ChangeKind::Modified, 0, 0),
        ("new", ChangeKind::Added, 1, 0),
    ];
    assert_eq!(rows, wanted.map(|(name, kind, more, less)| (name.into(), kind, more, less)));
    Ok(())
}

#[test]
fn time_and_output_limits_hold() -> Fallible {
    let case = GitFixture::new()?;
    // A `git` that never ends, and one that never stops talking.
    for (script, timed_out) in [("exec sleep 1000", true), ("exec yes", false)] {
        let bin = case.at("bin");
        fs_err::create_dir_all(&bin)?;
        fs_err::write(bin.join("git"), format!("#!/bin/sh\n{script}\n"))?;
        fs_err::set_permissions(bin.join("git"), std::fs::Permissions::from_mode(0o755))?;
        let mut path = bin.into_os_string();
        path.push(":/usr/bin:/bin");
        let time = Duration::from_millis(if timed_out { 100 } else { 60_000 });
        let env = GitEnvironment { path, ..GitEnvironment::default() };
        let git = Git::new(case.repository(&case.repo()), env).limits(GitLimits {
            time,
            output: 100_000,
            ..GitLimits::default()
        });
        let error = git.status().unwrap_err();
        let expected = if timed_out {
            matches!(error, GitError::TimedOut { .. })
        } else {
            matches!(error, GitError::TooMuch { .. })
        };
        assert!(expected, "{script}: {error:?}");
    }
    Ok(())
}

#[test]
fn old_git_is_rejected() -> Fallible {
    let case = GitFixture::new()?;
    let bin = case.at("old");
    fs_err::create_dir_all(&bin)?;
    fs_err::write(bin.join("git"), "#!/bin/sh\necho git version 2.37.7\n")?;
    fs_err::set_permissions(bin.join("git"), std::fs::Permissions::from_mode(0o755))?;
    let env = GitEnvironment { path: bin.into_os_string(), ..GitEnvironment::default() };
    for _ in 0..2 {
        let git = Git::new(case.repository(&case.repo()), env.clone());
        let error = git.status().unwrap_err();
        assert!(matches!(&error, GitError::TooOld { found, .. } if found == "2.37.7"), "{error:?}");
        assert!(error.hint().is_some());
    }
    Ok(())
}

#[test]
fn git_is_never_run_from_the_repository() -> Fallible {
    let case = GitFixture::new()?;
    fs_err::write(case.repo().join("git"), "#!/bin/sh\necho ran > ran\n")?;
    fs_err::set_permissions(case.repo().join("git"), std::fs::Permissions::from_mode(0o755))?;
    for path in [".", "", ":.:", "./"] {
        let env = GitEnvironment { path: path.into(), ..GitEnvironment::default() };
        let error = Git::new(case.repository(&case.repo()), env).status().unwrap_err();
        assert!(matches!(error, GitError::Missing), "{path:?}: {error:?}");
    }
    let env = GitEnvironment { path: ".:/usr/bin:/bin".into(), ..case.environment() };
    assert_eq!(Git::new(case.repository(&case.repo()), env).status()?.len(), 1);
    assert!(!case.repo().join("ran").exists());
    Ok(())
}

#[test]
fn conditional_include_blocks_worktree_creation() -> Fallible {
    let case = GitFixture::new()?;
    case.plain(&["config", "includeIf.gitdir:**/worktrees/**.path", "/nowhere"])?;
    let path = case.at("tree");
    let new = GitWorktreeRequest { path: &path, branch: Some("b"), from: "HEAD" };
    let error = case.git().worktrees().add(new).unwrap_err();
    assert!(matches!(error, GitError::ConditionalInclude { .. }), "{error:?}");
    assert!(!path.exists() && case.branches()? == ["refs/heads/main"]);
    assert!(case.git().status()?.is_empty());
    Ok(())
}

#[test]
fn file_settings_are_respected() -> Fallible {
    let case = GitFixture::new()?;
    case.plain(&["config", "core.fileMode", "false"])?;
    fs_err::set_permissions(case.repo().join("file"), std::fs::Permissions::from_mode(0o755))?;
    fs_err::write(case.at("home/ignored"), "*.log\n")?;
    fs_err::write(case.at("home/.gitconfig"), "[core]\n\texcludesFile = ~/ignored\n")?;
    fs_err::write(case.repo().join("a.log"), "x")?;
    fs_err::write(case.repo().join(".git/info/exclude"), "*.tmp\n")?;
    fs_err::write(case.repo().join("b.tmp"), "x")?;
    assert_eq!(case.git().status()?, []);
    case.plain(&["config", "remote.origin.url", "https://host/x"])?;
    assert_eq!(case.git().find_remote("origin")?.as_deref(), Some("https://host/x"));
    assert_eq!(case.git().find_remote("other")?, None);
    Ok(())
}

#[test]
fn other_repository_formats_work() -> Fallible {
    for format in ["--object-format=sha256", "--ref-format=reftable"] {
        let case = GitFixture::new()?;
        fs_err::remove_dir_all(case.repo())?;
        fs_err::create_dir(case.repo())?;
        if case.plain(&["init", "-q", "-b", "main", format]).is_err() {
            println!("this git does not know {format}");
            continue;
        }
        fs_err::write(case.repo().join("file"), "one\n")?;
        match case.git().status() {
            Ok(changes) => assert_eq!(changes.len(), 1, "{format}"),
            // Not the git that made it: what it does not understand is not guessed.
            Err(GitError::Failed { stderr, .. }) if stderr.contains("extension") => {
                println!("this git refuses {format}: {stderr}");
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        case.plain(&["add", "."])?;
        assert!(!case.git().diff_since(None, 3)?.is_empty(), "{format}: before the first commit");
        case.plain(&["commit", "-q", "-m", "first"])?;
        let head = case.git().history().find_commit("HEAD")?.ok_or("no commit")?;
        assert_eq!(case.branches()?, ["refs/heads/main"], "{format}");
        let path = case.at("tree");
        let new = GitWorktreeRequest { path: &path, branch: Some("b"), from: &head };
        case.git().worktrees().add(new)?;
        let inside = case.git_in(&path);
        assert_eq!(
            inside.history().find_head_branch()?.as_deref(),
            Some("refs/heads/b"),
            "{format}"
        );
        assert_eq!(inside.status()?, [], "{format}");
        fs_err::write(path.join("file"), "two\n")?;
        assert!(!inside.diff_since(Some("HEAD"), 3)?.is_empty(), "{format}");
        inside.reset_hard("main")?;
        case.git().worktrees().remove(&path)?;
        case.git().history().delete_branch("b", &head)?;
        assert_eq!(case.branches()?, ["refs/heads/main"], "{format}");
    }
    Ok(())
}
