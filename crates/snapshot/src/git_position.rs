//! The position of the user's repository: commit, branch and index, read and never written (R5, R10).

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use turnstone_core::change::GitPosition;

use crate::bounded_file::{open_regular_file, read_bounded_file};

/// How many symbolic references are followed.
const MAX_SYMREF_HOPS: usize = 5;
/// Bytes at the end of an index that sum up the rest.
const CHECKSUM_BYTES: i64 = 20;

/// The longest file that holds one name or path.
const NAME_BYTES: u64 = 64 << 10;
/// The longest list of packed references that is read: over half a million of them.
const PACKED_BYTES: u64 = 64 << 20;

/// What git writes for a branch in a repository whose references it keeps elsewhere.
const REFTABLE_HEAD: &str = "refs/heads/.invalid";

/// Reads the position of the repository whose files begin at `root`; `None` outside of one.
///
/// What is there and cannot be read makes the point an unknown one; it is never taken for nothing.
#[must_use]
pub fn read_git_position(root: &Path) -> Option<GitPosition> {
    match find_git_dir(root) {
        Ok(Some(git_dir)) => {
            Some(read_position(&git_dir).unwrap_or_else(|_| GitPosition::unknown()))
        }
        Ok(None) => None,
        Err(_) => Some(GitPosition::unknown()),
    }
}

/// The directory of the repository.
fn find_git_dir(root: &Path) -> io::Result<Option<PathBuf>> {
    let git = root.join(".git");
    let found = match fs_err::metadata(&git) {
        Err(error) if is_absent(&error) => return Ok(None),
        found => found?,
    };
    if found.is_dir() {
        // Without this file git takes it for a directory like any other.
        return match fs_err::symlink_metadata(git.join("HEAD")) {
            Err(error) if is_absent(&error) => Ok(None),
            head => head.map(|_| Some(git)),
        };
    }
    let text = read_text(&git, NAME_BYTES)?.ok_or(io::ErrorKind::InvalidData)?;
    let named = text.strip_prefix("gitdir: ").ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some(root.join(named.trim_end())))
}

fn read_position(git_dir: &Path) -> io::Result<GitPosition> {
    let common = match read_text(&git_dir.join("commondir"), NAME_BYTES)? {
        Some(text) => git_dir.join(text.trim_end()),
        None => git_dir.to_owned(),
    };
    let head = read_text(&git_dir.join("HEAD"), NAME_BYTES)?.ok_or(io::ErrorKind::InvalidData)?;
    let mut at = head.trim_end().to_owned();
    let branch = at.strip_prefix("ref: ").map(str::to_owned);
    if branch.as_deref() == Some(REFTABLE_HEAD) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    for _ in 0..MAX_SYMREF_HOPS {
        let Some(name) = at.strip_prefix("ref: ").map(str::to_owned) else { break };
        at = resolve_ref(&[git_dir, &common], &name)?.unwrap_or_default();
    }
    if !at.is_empty() && !is_object_id(&at) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(GitPosition {
        head: Some(at).filter(|at| !at.is_empty()),
        branch: branch.map(|name| name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()),
        index: index_checksum(&git_dir.join("index"))?,
        unknown: false,
    })
}

/// What a reference names; `None` if it is not there, as on a branch without a commit.
fn resolve_ref(folders: &[&Path], name: &str) -> io::Result<Option<String>> {
    // A name that leads elsewhere is no reference.
    if !name.starts_with("refs/") || name.split('/').any(|part| part == "..") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    for folder in folders {
        if let Some(text) = read_text(&folder.join(name), NAME_BYTES)? {
            return Ok(Some(text.trim_end().to_owned()));
        }
    }
    for folder in folders {
        let packed = read_text(&folder.join("packed-refs"), PACKED_BYTES)?.unwrap_or_default();
        let named =
            |line: &str| line.split_once(' ').filter(|it| it.1 == name).map(|it| it.0.to_owned());
        if let Some(found) = packed.lines().find_map(named) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A regular file that may not be there; a pipe or a device in its place is an error and blocks nothing.
fn read_text(path: &Path, limit: u64) -> io::Result<Option<String>> {
    match read_bounded_file(path, limit) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => {
            String::from_utf8(bytes).map(Some).map_err(|_| io::ErrorKind::InvalidData.into())
        }
        // A folder of references has a name that no reference can have.
        Err(_) if fs_err::metadata(path).is_ok_and(|found| found.is_dir()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn index_checksum(path: &Path) -> io::Result<Option<String>> {
    let Some(mut file) = open_regular_file(path)? else { return Ok(None) };
    file.seek(SeekFrom::End(-CHECKSUM_BYTES))?;
    let mut sum = Vec::new();
    file.take(CHECKSUM_BYTES.unsigned_abs()).read_to_end(&mut sum)?;
    Ok(Some(sum.iter().map(|byte| format!("{byte:02x}")).collect()))
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

    /// Proves R5.
    #[test]
    fn commit_switch_and_staging_change_the_git_position() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert_eq!(read_git_position(dir.path()), None, "no repository");
        git(dir.path(), &["init", "-q"]);
        let empty = read_git_position(dir.path()).expect("a repository");
        assert_eq!((empty.head, empty.branch.as_deref()), (None, Some("main")));

        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "one"]);
        let first = read_git_position(dir.path()).expect("a repository");
        assert_eq!(first.head, Some(git(dir.path(), &["rev-parse", "HEAD"])));
        fs_err::write(dir.path().join("a"), "a").expect("written");
        git(dir.path(), &["add", "a"]);
        let staged = read_git_position(dir.path()).expect("a repository");
        assert!(staged.head == first.head && staged.index != first.index);

        git(dir.path(), &["checkout", "-q", "--detach"]);
        git(dir.path(), &["pack-refs", "--all"]);
        let detached = read_git_position(dir.path()).expect("a repository");
        assert_eq!((detached.branch, &detached.head), (None, &first.head));
        git(dir.path(), &["checkout", "-q", "main"]);
        let packed = read_git_position(dir.path()).expect("a repository");
        assert_eq!((packed.branch.as_deref(), packed.head), (Some("main"), first.head));
    }

    /// Proves R5.
    #[test]
    fn unreadable_repository_is_unknown_position_not_absent() {
        let dir = tempfile::tempdir().expect("temp dir");
        let here = || read_git_position(dir.path());
        fs_err::create_dir(dir.path().join(".git")).expect("made");
        assert_eq!(here(), None, "a directory of that name is no repository");
        fs_err::remove_dir(dir.path().join(".git")).expect("removed");
        git(dir.path(), &["init", "-q"]);
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "one"]);
        let head = dir.path().join(".git/HEAD");
        let good = fs_err::read(&head).expect("read");

        fs_err::remove_file(&head).expect("removed");
        fs_err::create_dir(&head).expect("made");
        assert_eq!(here(), Some(GitPosition::unknown()), "HEAD cannot be read");
        fs_err::remove_dir(&head).expect("removed");
        for wrong in ["ref: refs/heads/.invalid\n", "ref: ../x\n", "nonsense\n"] {
            fs_err::write(&head, wrong).expect("written");
            assert_eq!(here(), Some(GitPosition::unknown()), "{wrong:?}");
        }
        fs_err::write(&head, good).expect("written");
        assert!(here().is_some_and(|point| point.head.is_some() && !point.unknown));
        fs_err::write(dir.path().join(".git/index"), "short").expect("written");
        assert_eq!(here(), Some(GitPosition::unknown()), "the index cannot be read");
        let away = tempfile::tempdir().expect("temp dir");
        fs_err::write(away.path().join(".git"), "gitdir: /nowhere/at/all\n").expect("written");
        assert_eq!(read_git_position(away.path()), Some(GitPosition::unknown()));
    }

    #[test]
    fn pipes_and_devices_in_git_dir_do_not_block() {
        let fifo = |path: &Path| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).expect("a pipe");
        };
        let zero = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).expect("linked");
        for name in ["HEAD", "index", "packed-refs", "commondir", "refs/heads/main", "."] {
            for replace in [&fifo as &dyn Fn(&Path), &zero] {
                let dir = tempfile::tempdir().expect("temp dir");
                git(dir.path(), &["init", "-q"]);
                git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "one"]);
                if name == "packed-refs" {
                    git(dir.path(), &["pack-refs", "--all"]);
                }
                let path = dir.path().join(".git").join(name);
                if path.is_dir() {
                    fs_err::remove_dir_all(dir.path().join(".git")).expect("removed");
                    replace(&dir.path().join(".git"));
                } else {
                    fs_err::remove_file(&path).ok();
                    replace(&path);
                }
                assert_eq!(read_git_position(dir.path()), Some(GitPosition::unknown()), "{name}");
            }
        }
    }

    /// Proves R5.
    #[test]
    fn linked_worktree_has_its_own_git_position() {
        let dir = tempfile::tempdir().expect("temp dir");
        let main = dir.path().join("main");
        fs_err::create_dir(&main).expect("made");
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&main, &["worktree", "add", "-q", "-b", "side", "../side"]);
        let side = read_git_position(&dir.path().join("side")).expect("a repository");
        assert_eq!(side.branch.as_deref(), Some("side"));
        assert_eq!(side.head, Some(git(&main, &["rev-parse", "HEAD"])));
    }
}
