//! Repositories in which pipes and devices are in place of files, and callers that leave.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use turnstone_process::{GitCancellation, GitError, GitLimits};

use crate::{Fallible, GitFixture};

/// Waiting longer is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn put_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
}

fn put_device(path: &Path) {
    symlink("/dev/zero", path).expect("linked");
}

/// Files that git reads, below the top of the worktree.
const FILES: [&str; 20] = [
    ".git/HEAD",
    ".git/config",
    ".git/config.worktree",
    ".git/index",
    ".git/packed-refs",
    ".git/shallow",
    ".git/refs/heads/main",
    ".git/refs/heads/other",
    ".git/refs/remotes/origin/HEAD",
    ".git/objects/info/alternates",
    ".git/objects/info/commit-graph",
    ".git/objects/pack/pack-0000000000000000000000000000000000000000.idx",
    ".git/info/attributes",
    ".git/info/exclude",
    ".git/info/grafts",
    ".git/info/sparse-checkout",
    ".git/MERGE_HEAD",
    ".gitmodules",
    ".gitattributes",
    ".gitignore",
];

#[test]
fn git_is_not_run_where_a_pipe_or_device_is_in_place_of_a_file() -> Fallible {
    for put in [put_pipe, put_device] {
        for name in FILES {
            let case = GitFixture::new()?;
            case.plain(&["config", "extensions.worktreeConfig", "true"])?;
            let path = case.repo().join(name);
            fs_err::create_dir_all(path.parent().ok_or("no folder")?)?;
            fs_err::remove_file(&path).ok();
            put(&path);
            let answer = case.git().status();
            // Git itself refuses links in place of these two.
            let is_link = fs_err::symlink_metadata(&path)?.is_symlink();
            if is_link && matches!(name, ".gitattributes" | ".gitignore") {
                assert!(answer.is_ok(), "{name}: {answer:?}");
                continue;
            }
            let error = answer.expect_err(name);
            let is_named = matches!(&error, GitError::UnusableFile { path: at, .. } if *at == path);
            assert!(is_named, "{name}: {error:?}");
            assert!(error.hint().is_some() && error.to_string().contains("not a file"), "{error}");
        }
    }
    Ok(())
}

#[test]
fn configured_and_included_files_are_looked_at_before_git_reads_them() -> Fallible {
    let settings = [
        ["include.path", "../odd"],
        ["includeIf.gitdir:/nowhere/.path", "../odd"],
        ["core.attributesFile", "odd"],
        ["core.excludesFile", "odd"],
    ];
    for [key, value] in settings {
        for put in [put_pipe, put_device] {
            let case = GitFixture::new()?;
            put(&case.repo().join("odd"));
            case.plain(&["config", key, value])?;
            let error = case.git().status().expect_err(key);
            assert!(matches!(error, GitError::UnusableFile { .. }), "{key}: {error:?}");
        }
    }
    // Those of an honest repository count.
    let case = GitFixture::new()?;
    fs_err::write(case.repo().join("kept out"), "")?;
    fs_err::write(case.repo().join(".git/rules"), "kept*\n")?;
    fs_err::write(case.repo().join(".git/more"), "[core]\n\texcludesFile = .git/rules\n")?;
    case.plain(&["config", "include.path", "more"])?;
    assert!(case.git().status()?.is_empty());
    Ok(())
}

#[test]
fn paths_that_only_git_can_expand_are_refused_from_a_repository() -> Fallible {
    let values =
        ["~root/../dev/zero", "%(prefix)/../../dev/zero", ":(optional)/dev/zero", "~nobody"];
    for key in ["include.path", "core.attributesFile", "core.excludesFile"] {
        for value in values {
            let case = GitFixture::new()?;
            case.plain(&["config", key, value])?;
            let error = case.git().status().expect_err(value);
            let is_named =
                matches!(&error, GitError::UnusableFile { path, .. } if path == Path::new(value));
            assert!(is_named, "{key} = {value}: {error:?}");
            assert!(error.to_string().contains("your own configuration"), "{error}");
        }
    }
    // The user may write them, and what the user says counts where the repository says nothing.
    let case = GitFixture::new()?;
    let own = "[core]\n\tattributesFile = ~root/none\n\texcludesFile = %(prefix)/none\n";
    fs_err::write(case.at("home/.gitconfig"), own)?;
    assert!(case.git().status()?.is_empty());
    Ok(())
}

#[test]
fn configured_files_with_names_outside_utf_8_are_looked_at() -> Fallible {
    let case = GitFixture::new()?;
    let name = OsStr::from_bytes(b"odd\xff");
    put_pipe(&case.repo().join(name));
    let config = [&b"[core]\n\texcludesFile = "[..], name.as_bytes(), b"\n"].concat();
    let file = case.repo().join(".git/config");
    fs_err::write(&file, [fs_err::read(&file)?, config].concat())?;
    let error = case.git().status().expect_err("a pipe");
    assert!(matches!(error, GitError::UnusableFile { .. }), "{error:?}");
    Ok(())
}

#[test]
fn a_command_that_waits_for_a_pipe_is_ended() -> Fallible {
    let case = GitFixture::new()?;
    fs_err::create_dir(case.repo().join("deep"))?;
    put_pipe(&case.repo().join("deep/.gitignore"));
    let limits = GitLimits { stall: Duration::from_millis(200), ..GitLimits::default() };
    let error = case.git().limits(limits).status().unwrap_err();
    assert!(matches!(error, GitError::Stalled { .. }), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("-type p")));
    Ok(())
}

#[test]
fn a_command_that_works_is_not_taken_for_stalled() -> Fallible {
    let case = GitFixture::new()?;
    let bin = case.at("bin");
    fs_err::create_dir_all(&bin)?;
    // It needs a while, without a word, in a process of its own.
    let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *status*) sh -c '{work}'; esac\nexec /usr/bin/git \"$@\"\n"
    );
    fs_err::write(bin.join("git"), script)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(bin.join("git"), mode)?;
    let env = turnstone_process::GitEnvironment { path: bin.into(), ..case.environment() };
    let limits = GitLimits { stall: Duration::from_millis(100), ..GitLimits::default() };
    let git = turnstone_process::Git::new(case.repository(&case.repo()), env).limits(limits);
    assert!(git.status()?.is_empty());
    Ok(())
}

#[test]
fn cancelling_ends_the_command_that_runs_and_those_after_it() -> Fallible {
    let case = GitFixture::new()?;
    let (bin, ready, never) = (case.at("bin"), case.at("ready"), case.at("never"));
    fs_err::create_dir_all(&bin)?;
    put_pipe(&ready);
    put_pipe(&never);
    // Says that it runs, then waits for a writer that never comes.
    let wait = format!(": > '{}'; exec cat '{}'", ready.display(), never.display());
    let script =
        format!("#!/bin/sh\ncase \"$*\" in *status*) {wait};; esac\nexec /usr/bin/git \"$@\"\n");
    fs_err::write(bin.join("git"), script)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(bin.join("git"), mode)?;
    let mut path = std::ffi::OsString::from(bin);
    path.push(":/usr/bin:/bin");
    let env = turnstone_process::GitEnvironment { path, ..case.environment() };
    let limits = GitLimits { stall: PATIENCE, time: PATIENCE, ..GitLimits::default() };
    let git = turnstone_process::Git::new(case.repository(&case.repo()), env).limits(limits);
    let handle = GitCancellation::default();
    let (done_in, done) = channel();
    let covered = handle.clone();
    let thread = std::thread::spawn(move || {
        let answer = covered.cover(|| git.status());
        done_in.send(answer.map(drop)).expect("the test waits");
        (git, covered)
    });
    // Ends when the script has opened and closed its end.
    fs_err::read(&ready)?;
    handle.cancel();
    let answer = done.recv_timeout(PATIENCE)?;
    assert!(matches!(answer, Err(GitError::Cancelled { .. })), "{answer:?}");
    let (git, covered) = thread.join().expect("no panic");
    let answer = covered.cover(|| git.history().find_commit("HEAD"));
    assert!(matches!(answer, Err(GitError::Cancelled { .. })), "{answer:?}");
    assert!(git.history().find_commit("HEAD")?.is_some(), "others are not cancelled");
    Ok(())
}
