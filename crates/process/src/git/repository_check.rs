//! What git will read of a repository, looked at before git opens it.
//!
//! Git opens whatever is at a path: a pipe makes it wait for a writer, a device gives it bytes without an
//! end. So the folders of the repository are walked first. Files may still be replaced afterwards, and
//! those of the worktree are too many to check: the limits of each command apply to them.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat, stat};
use rustix::io::Errno;

use super::error::GitError;
use super::repository::GitRepository;

/// Entries that are looked at below the two folders. A repository with more is not refused; the files
/// that every command reads are looked at by name.
const MOST_ENTRIES: usize = 200_000;
/// No index and no list of packed references is larger: two million entries fit.
const TABLE_BYTES: u64 = 512 << 20;
/// No configuration, attributes, excludes or reference file is larger.
pub(super) const TEXT_BYTES: u64 = 16 << 20;

/// The files that most commands read, with the largest size of each.
const FILES: [(&str, u64); 15] = [
    ("HEAD", TEXT_BYTES),
    ("config", TEXT_BYTES),
    ("config.worktree", TEXT_BYTES),
    ("commondir", TEXT_BYTES),
    ("gitdir", TEXT_BYTES),
    ("index", TABLE_BYTES),
    ("packed-refs", TABLE_BYTES),
    ("shallow", TABLE_BYTES),
    ("info/attributes", TEXT_BYTES),
    ("info/exclude", TEXT_BYTES),
    ("info/grafts", TEXT_BYTES),
    ("info/sparse-checkout", TEXT_BYTES),
    ("objects/info/alternates", TEXT_BYTES),
    ("objects/info/commit-graph", u64::MAX),
    ("reftable/tables.list", TEXT_BYTES),
];
/// Files at the top of the worktree that git reads, and whether it follows a link there.
const WORKTREE_FILES: [(&str, bool); 3] =
    [(".gitattributes", false), (".gitignore", false), (".gitmodules", true)];

/// Refuses a repository in which something else is in place of a file that git reads.
///
/// # Errors
///
/// [`GitError::UnusableFile`] names the first one; [`GitError::Start`] if it cannot be looked at.
pub(super) fn check_repository_files(repository: &GitRepository) -> Result<(), GitError> {
    let GitRepository { worktree, git_dir, common_dir } = repository;
    let folders: BTreeSet<&PathBuf> = [git_dir, common_dir].into();
    for folder in &folders {
        for (name, limit) in FILES {
            check_file(&folder.join(name), limit)?;
        }
    }
    for (name, follows_links) in WORKTREE_FILES {
        let path = worktree.join(name);
        let is_link = fs_err::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
        if follows_links || !is_link {
            check_file(&path, TEXT_BYTES)?;
        }
    }
    check_folders(folders.into_iter().cloned().collect(), MOST_ENTRIES)
}

/// Refuses anything but a regular file of at most `limit` bytes, or no file. Links are followed.
///
/// A folder in place of a file makes git fail with a message of its own.
pub(super) fn check_text_file(path: &Path) -> Result<(), GitError> {
    check_file(path, TEXT_BYTES)
}

fn check_file(path: &Path, limit: u64) -> Result<(), GitError> {
    let Some(found) = find_metadata(path)? else { return Ok(()) };
    let kind = FileType::from_raw_mode(found.st_mode);
    check_type(path, kind)?;
    let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
    match kind.is_file() && size > limit {
        true => Err(unusable(path, format!("is larger than {limit} bytes"))),
        false => Ok(()),
    }
}

/// Walks folders, those next to the top first, until `most` entries were seen.
fn check_folders(mut folders: VecDeque<PathBuf>, most: usize) -> Result<(), GitError> {
    let mut linked = BTreeSet::new();
    let mut seen = 0_usize;
    while let Some(folder) = folders.pop_front() {
        let entries = match fs_err::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => continue,
            Err(source) => return Err(GitError::Start { dir: folder, source }),
        };
        for entry in entries {
            let looked = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)));
            let (path, kind) = match looked {
                Ok(found) => found,
                Err(error) if is_absent(&error) => continue,
                Err(source) => return Err(GitError::Start { dir: folder, source }),
            };
            seen += 1;
            if seen > most {
                return Ok(());
            }
            if kind.is_symlink() {
                let Some(found) = find_metadata(&path)? else { continue };
                let kind = FileType::from_raw_mode(found.st_mode);
                check_type(&path, kind)?;
                // Two links to one folder, or a link to a folder above, are followed once.
                if kind.is_dir() && linked.insert((found.st_dev, found.st_ino)) {
                    folders.push_back(path);
                }
            } else if kind.is_dir() {
                folders.push_back(path);
            } else if !kind.is_file() {
                check_file(&path, u64::MAX)?;
            }
        }
    }
    Ok(())
}

fn check_type(path: &Path, kind: FileType) -> Result<(), GitError> {
    let what = if kind.is_fifo() {
        "is a pipe, not a file"
    } else if kind.is_char_device() || kind.is_block_device() {
        "is a device, not a file"
    } else {
        // Opening a socket fails at once; git's own file system monitor has one here.
        return Ok(());
    };
    Err(unusable(path, what.to_owned()))
}

/// What a link leads to; `None` if there is nothing.
fn find_metadata(path: &Path) -> Result<Option<Stat>, GitError> {
    match stat(path) {
        Ok(found) => Ok(Some(found)),
        // Git opens nothing either where links lead in a circle, or where the user may not look.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(GitError::Start { dir: path.to_owned(), source: errno.into() }),
    }
}

fn unusable(path: &Path, problem: String) -> GitError {
    GitError::UnusableFile { path: path.to_owned(), problem }
}

/// A folder that is gone, or that git may not read either.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn repository(top: &Path) -> GitRepository {
        let git_dir = top.join(".git");
        fs_err::create_dir_all(git_dir.join("refs/heads")).unwrap();
        fs_err::write(git_dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let (worktree, common_dir) = (top.to_owned(), git_dir.clone());
        GitRepository { worktree, git_dir, common_dir }
    }

    fn put_pipe(path: &Path) {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
    }

    #[test]
    fn anything_but_a_file_is_refused_wherever_it_is() {
        let device = |path: &Path| symlink("/dev/zero", path).unwrap();
        for put in [&put_pipe as &dyn Fn(&Path), &device] {
            for name in ["index", "refs/heads/deep/er", "modules/sub/HEAD", "objects/ab/cd"] {
                let dir = tempfile::tempdir().unwrap();
                let repository = repository(dir.path());
                check_repository_files(&repository).unwrap();
                let bad = repository.git_dir.join(name);
                fs_err::create_dir_all(bad.parent().unwrap()).unwrap();
                put(&bad);
                let error = check_repository_files(&repository).unwrap_err();
                let is_named =
                    matches!(&error, GitError::UnusableFile { path, .. } if *path == bad);
                assert!(is_named, "{name}: {error}");
            }
        }
    }

    #[test]
    fn large_files_are_refused_by_what_they_hold() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(dir.path());
        let grow = |name: &str, bytes: u64| {
            let file = fs_err::File::create(repository.git_dir.join(name)).unwrap();
            file.set_len(bytes).unwrap();
        };
        grow("index", TABLE_BYTES);
        check_repository_files(&repository).unwrap();
        grow("HEAD", TEXT_BYTES + 1);
        let error = check_repository_files(&repository).unwrap_err().to_string();
        assert!(error.contains("HEAD is larger than"), "{error}");
    }

    #[test]
    fn links_in_a_circle_end_the_walk_and_others_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(dir.path());
        symlink("..", repository.git_dir.join("refs/up")).unwrap();
        symlink("self", repository.git_dir.join("self")).unwrap();
        symlink("nowhere", repository.git_dir.join("dangling")).unwrap();
        symlink("/dev/zero", dir.path().join(".gitignore")).unwrap();
        check_repository_files(&repository).unwrap();
        fs_err::create_dir(dir.path().join("elsewhere")).unwrap();
        put_pipe(&dir.path().join("elsewhere/pipe"));
        symlink("../../elsewhere", repository.git_dir.join("refs/linked")).unwrap();
        assert!(check_repository_files(&repository).is_err());
    }

    #[test]
    fn named_files_are_refused_however_many_others_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let repository = repository(dir.path());
        put_pipe(&repository.git_dir.join("refs/heads/pipe"));
        check_folders([repository.git_dir.clone()].into(), 1).unwrap();
        assert!(check_folders([repository.git_dir.clone()].into(), 100).is_err());
    }
}
