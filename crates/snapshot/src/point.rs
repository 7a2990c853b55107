//! Where the user's repository stands: commit, branch and index, read and never written (R5, R10).

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use turnstone_core::change::GitPoint;

/// How many symbolic references are followed.
const HOPS: usize = 5;
/// Bytes at the end of an index that sum up the rest.
const SUM: i64 = 20;

/// Reads where the repository stands whose files begin at `root`; nothing outside of one.
///
/// What cannot be told, as in a repository that keeps its references in tables, is left out.
#[must_use]
pub fn git_point(root: &Path) -> Option<GitPoint> {
    let git_dir = git_dir(root)?;
    let common = match fs_err::read_to_string(git_dir.join("commondir")) {
        Ok(text) => git_dir.join(text.trim_end()),
        Err(_) => git_dir.clone(),
    };
    let text = fs_err::read_to_string(git_dir.join("HEAD")).ok()?;
    let mut at = text.trim_end().to_owned();
    let branch = at.strip_prefix("ref: ").map(str::to_owned);
    for _ in 0..HOPS {
        let Some(name) = at.strip_prefix("ref: ").map(str::to_owned) else { break };
        at = reference(&[&git_dir, &common], &name).unwrap_or_default();
    }
    Some(GitPoint {
        head: is_name(&at).then_some(at),
        branch: branch.map(|name| name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()),
        index: index_sum(&git_dir.join("index")),
    })
}

fn git_dir(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if fs_err::symlink_metadata(&git).ok()?.is_dir() {
        return Some(git);
    }
    let text = fs_err::read_to_string(git).ok()?;
    Some(root.join(text.strip_prefix("gitdir: ")?.trim_end()))
}

fn reference(folders: &[&Path], name: &str) -> Option<String> {
    // A name that leads elsewhere is no reference.
    if !name.starts_with("refs/") || name.split('/').any(|part| part == "..") {
        return None;
    }
    let loose = folders.iter().find_map(|dir| fs_err::read_to_string(dir.join(name)).ok());
    if let Some(text) = loose {
        return Some(text.trim_end().to_owned());
    }
    let packed =
        folders.iter().find_map(|dir| fs_err::read_to_string(dir.join("packed-refs")).ok());
    let packed = packed?;
    let line = packed.lines().find(|line| line.split_once(' ').is_some_and(|it| it.1 == name));
    line?.split_once(' ').map(|it| it.0.to_owned())
}

fn is_name(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn index_sum(path: &Path) -> Option<String> {
    let mut file = fs_err::File::open(path).ok()?;
    file.seek(SeekFrom::End(-SUM)).ok()?;
    let mut sum = Vec::new();
    file.read_to_end(&mut sum).ok()?;
    Some(sum.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
    fn git(dir: &Path, words: &[&str]) -> String {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
            .args(words)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git runs");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    #[test]
    fn a_commit_a_switch_and_a_staged_file_are_seen_r5() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert_eq!(git_point(dir.path()), None, "no repository");
        git(dir.path(), &["init", "-q"]);
        let empty = git_point(dir.path()).expect("a repository");
        assert_eq!((empty.head, empty.branch.as_deref()), (None, Some("main")));

        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "one"]);
        let first = git_point(dir.path()).expect("a repository");
        assert_eq!(first.head, Some(git(dir.path(), &["rev-parse", "HEAD"])));
        fs_err::write(dir.path().join("a"), "a").expect("written");
        git(dir.path(), &["add", "a"]);
        let staged = git_point(dir.path()).expect("a repository");
        assert!(staged.head == first.head && staged.index != first.index);

        git(dir.path(), &["checkout", "-q", "--detach"]);
        git(dir.path(), &["pack-refs", "--all"]);
        let detached = git_point(dir.path()).expect("a repository");
        assert_eq!((detached.branch, &detached.head), (None, &first.head));
        git(dir.path(), &["checkout", "-q", "main"]);
        let packed = git_point(dir.path()).expect("a repository");
        assert_eq!((packed.branch.as_deref(), packed.head), (Some("main"), first.head));
    }

    #[test]
    fn a_linked_worktree_has_a_point_of_its_own_r5() {
        let dir = tempfile::tempdir().expect("temp dir");
        let main = dir.path().join("main");
        fs_err::create_dir(&main).expect("made");
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&main, &["worktree", "add", "-q", "-b", "side", "../side"]);
        let side = git_point(&dir.path().join("side")).expect("a repository");
        assert_eq!(side.branch.as_deref(), Some("side"));
        assert_eq!(side.head, Some(git(&main, &["rev-parse", "HEAD"])));
    }
}
