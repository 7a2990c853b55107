//! Finding the repository of a directory, the way git does, without trusting what is found.
//!
//! Only a `.git` entry of a folder makes it a worktree. A folder that looks like a git directory itself
//! (`HEAD`, `refs`, `objects`) is a folder like any other: a clone may carry one as plain files, with a
//! configuration that its author wrote. Owners are compared, and a `.git` that leads elsewhere counts
//! only if what it leads to names it in return.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{GitConfig, SafeDirectories};
use crate::bounded_file::read_bounded_file;

/// The longest file that holds one path.
const POINTER_BYTES: u64 = 64 << 10;
/// The longest configuration file that is read.
const CONFIG_BYTES: u64 = 16 << 20;

/// Where a repository is. All paths are real ones, without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryLocation {
    /// The folder that holds the files and the `.git`.
    pub worktree: PathBuf,
    /// The folder of this worktree's own state: `HEAD`, the index.
    pub git_dir: PathBuf,
    /// The folder that all worktrees share; the same unless this is a linked worktree.
    pub common_dir: PathBuf,
}

/// Why an existing repository is not used. This is never an absence.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// Another user could have written its configuration.
    #[error("{} belongs to another user (uid {uid})", path.display())]
    ForeignOwner {
        /// The folder with the files.
        worktree: PathBuf,
        /// What the other user owns: that folder, its `.git`, or what that leads to.
        path: PathBuf,
        /// The user it belongs to.
        uid: u32,
    },
    /// A `.git` leads to a repository that does not name this folder as one of its worktrees.
    #[error("{} points to {}, which does not point back", git.display(), git_dir.display())]
    NoBackPointer {
        /// The folder with the files.
        worktree: PathBuf,
        /// The `.git` file, link or folder.
        git: PathBuf,
        /// Where it leads.
        git_dir: PathBuf,
    },
    /// A file of it is unreadable, too large, or not a regular file.
    #[error("the repository at {} cannot be read: {source}", path.display())]
    Unreadable {
        /// What cannot be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl RepositoryError {
    /// What helps against the error, if something does.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let trust = |worktree: &Path| {
            format!("git config --global --add safe.directory '{}'", worktree.display())
        };
        match self {
            Self::ForeignOwner { worktree, .. } => {
                Some(format!("if you trust it: {}", trust(worktree)))
            }
            Self::NoBackPointer { worktree, .. } => Some(format!(
                "`git worktree repair` repairs a worktree that was moved; if you trust it: {}",
                trust(worktree)
            )),
            Self::Unreadable { .. } => Some(
                "repair the repository, or remove what stands in place of that file".to_owned(),
            ),
        }
    }
}

/// Finds the repository whose worktree holds `directory`, a real path; `None` outside of every one,
/// inside a git directory, and where a `.git` file leads nowhere.
///
/// `safe` returns the folders the user trusts; it is asked only if the answer depends on it.
///
/// # Errors
///
/// See [`RepositoryError`].
pub fn discover_repository(
    directory: &Path,
    safe: &dyn Fn() -> SafeDirectories,
) -> Result<Option<RepositoryLocation>, RepositoryError> {
    discover_for_user(rustix::process::geteuid().as_raw(), directory, safe)
}

/// Finds the repository of a directory as this user may use it.
fn discover_for_user(
    uid: u32,
    directory: &Path,
    safe: &dyn Fn() -> SafeDirectories,
) -> Result<Option<RepositoryLocation>, RepositoryError> {
    let device = metadata(directory)?.map(|found| found.dev());
    for folder in directory.ancestors() {
        // As git, which does not look beyond a file system either.
        if metadata(folder)?.map(|found| found.dev()) != device {
            return Ok(None);
        }
        let git = folder.join(".git");
        let Some(found) = metadata(&git)? else { continue };
        let location = match found.is_dir() {
            true => location_from_git_dir(folder, &git, safe)?,
            false => match location_from_git_file(folder, &git, safe)? {
                Some(location) => Some(location),
                None => return Ok(None),
            },
        };
        // A folder of that name that is no repository.
        let Some(location) = location else { continue };
        if directory.starts_with(&location.git_dir) {
            return Ok(None);
        }
        check_owners(uid, &git, &location, safe)?;
        return Ok(Some(location));
    }
    Ok(None)
}

/// The repository of a `.git` folder; a link to one has to be confirmed by the other side.
fn location_from_git_dir(
    folder: &Path,
    git: &Path,
    safe: &dyn Fn() -> SafeDirectories,
) -> Result<Option<RepositoryLocation>, RepositoryError> {
    let git_dir = fs_err::canonicalize(git).map_err(|source| unreadable(git, source))?;
    let shared = read_pointer(&git_dir.join("commondir"))?;
    let is_own = git_dir == git && shared.is_none();
    let common_dir = match shared {
        None => git_dir.clone(),
        Some(shared) => canonical_path(&git_dir.join(shared))?.unwrap_or_else(|| git_dir.clone()),
    };
    if !is_git_dir(&git_dir, &common_dir)? {
        return Ok(None);
    }
    let location = RepositoryLocation { worktree: folder.to_owned(), git_dir, common_dir };
    match is_own || points_back(&location)? || safe().names_explicitly(folder) {
        true => Ok(Some(location)),
        false => Err(no_back_pointer(git, location)),
    }
}

/// The repository that a `.git` file names; `None` if it leads nowhere.
fn location_from_git_file(
    folder: &Path,
    git: &Path,
    safe: &dyn Fn() -> SafeDirectories,
) -> Result<Option<RepositoryLocation>, RepositoryError> {
    let invalid = || unreadable(git, io::Error::other("it does not begin with `gitdir: `"));
    let text = read(git, POINTER_BYTES)?.unwrap_or_default();
    let named = text.strip_prefix(b"gitdir: ").ok_or_else(invalid)?;
    let Some(git_dir) = canonical_path(&folder.join(path_of(named)))? else { return Ok(None) };
    let common_dir = match read_pointer(&git_dir.join("commondir"))? {
        None => git_dir.clone(),
        Some(shared) => match canonical_path(&git_dir.join(shared))? {
            Some(common_dir) => common_dir,
            None => return Ok(None),
        },
    };
    if !is_git_dir(&git_dir, &common_dir)? {
        return Ok(None);
    }
    let location = RepositoryLocation { worktree: folder.to_owned(), git_dir, common_dir };
    match points_back(&location)? || safe().names_explicitly(folder) {
        true => Ok(Some(location)),
        false => Err(no_back_pointer(git, location)),
    }
}

/// True if a git directory names this folder: a linked worktree by its `gitdir` file, a submodule
/// by `core.worktree`.
fn points_back(location: &RepositoryLocation) -> Result<bool, RepositoryError> {
    let RepositoryLocation { worktree, git_dir, common_dir } = location;
    if git_dir != common_dir {
        if git_dir.parent() != Some(&common_dir.join("worktrees")) {
            return Ok(false);
        }
        let Some(pointer) = read_pointer(&git_dir.join("gitdir"))? else { return Ok(false) };
        let pointer = git_dir.join(pointer);
        let folder = pointer.parent().filter(|_| pointer.file_name() == Some(OsStr::new(".git")));
        return Ok(folder.map(canonical_path).transpose()?.flatten().as_ref() == Some(worktree));
    }
    let path = git_dir.join("config");
    let parse = |path: &Path| {
        let text = read(path, CONFIG_BYTES)?.unwrap_or_default();
        GitConfig::parse(&text).map_err(|source| unreadable(path, source))
    };
    let mut config = parse(&path)?;
    if config.per_worktree {
        config = config.merge(parse(&git_dir.join("config.worktree"))?);
    }
    let Some(named) = config.worktree else { return Ok(false) };
    Ok(canonical_path(&git_dir.join(path_of(&named)))?.as_ref() == Some(worktree))
}

/// True if git would take it for a git directory.
fn is_git_dir(git_dir: &Path, common_dir: &Path) -> Result<bool, RepositoryError> {
    let head = git_dir.join("HEAD");
    let has_head = match fs_err::symlink_metadata(&head) {
        Ok(_) => true,
        Err(error) if is_absent(&error) => false,
        Err(source) => return Err(unreadable(&head, source)),
    };
    let is_folder =
        |name: &str| Ok(metadata(&common_dir.join(name))?.is_some_and(|found| found.is_dir()));
    Ok(has_head && is_folder("objects")? && is_folder("refs")?)
}

/// Refuses what another user owns, unless the user trusts the folder.
fn check_owners(
    uid: u32,
    git: &Path,
    location: &RepositoryLocation,
    safe: &dyn Fn() -> SafeDirectories,
) -> Result<(), RepositoryError> {
    let RepositoryLocation { worktree, git_dir, common_dir } = location;
    for path in [worktree, git, git_dir, common_dir] {
        let found = fs_err::symlink_metadata(path).map_err(|source| unreadable(path, source))?;
        if found.uid() != uid && !safe().trusts(worktree) {
            let (worktree, path) = (worktree.clone(), path.to_owned());
            return Err(RepositoryError::ForeignOwner { worktree, path, uid: found.uid() });
        }
    }
    Ok(())
}

fn no_back_pointer(git: &Path, location: RepositoryLocation) -> RepositoryError {
    let RepositoryLocation { worktree, git_dir, common_dir } = location;
    let leads_elsewhere = git_dir == git;
    let git_dir = if leads_elsewhere { common_dir } else { git_dir };
    RepositoryError::NoBackPointer { worktree, git: git.to_owned(), git_dir }
}

/// Reads a file that holds one path.
fn read_pointer(path: &Path) -> Result<Option<PathBuf>, RepositoryError> {
    Ok(read(path, POINTER_BYTES)?.map(|text| path_of(&text).to_owned()))
}

fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
    read_bounded_file(path, limit).map_err(|source| unreadable(path, source))
}

/// The real path; `None` if nothing is there.
fn canonical_path(path: &Path) -> Result<Option<PathBuf>, RepositoryError> {
    match fs_err::canonicalize(path) {
        Ok(real) => Ok(Some(real)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(source) => Err(unreadable(path, source)),
    }
}

fn metadata(path: &Path) -> Result<Option<std::fs::Metadata>, RepositoryError> {
    match fs_err::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(source) => Err(unreadable(path, source)),
    }
}

fn unreadable(path: &Path, source: io::Error) -> RepositoryError {
    RepositoryError::Unreadable { path: path.to_owned(), source }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii_end()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::user_git::UserGitSettings;

    #[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
    fn git(dir: &Path, words: &[&str]) {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
            .args(words)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git runs");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// A repository `main` with one commit in a new folder, whose real path is returned too.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("temp dir");
        let real = fs_err::canonicalize(dir.path()).expect("real");
        fs_err::create_dir_all(real.join("main/src")).expect("made");
        git(&real.join("main"), &["init", "-q"]);
        git(&real.join("main"), &["commit", "-q", "--allow-empty", "-m", "one"]);
        (dir, real)
    }

    fn discover(directory: &Path) -> Result<Option<RepositoryLocation>, RepositoryError> {
        discover_repository(directory, &SafeDirectories::default)
    }

    fn trusting(value: &str) -> SafeDirectories {
        let config = format!("[safe]\n\tdirectory = {value}\n").into_bytes();
        let settings = UserGitSettings { config: vec![config], attributes: Vec::new() };
        SafeDirectories::from_settings(&settings, Path::new("/h"))
    }

    #[test]
    fn nearest_git_directory_is_used() {
        let (_dir, real) = repository();
        let main = real.join("main");
        let location = discover(&main.join("src")).expect("found").expect("a repository");
        assert_eq!(location.worktree, main);
        assert_eq!(
            (&location.git_dir, &location.common_dir),
            (&main.join(".git"), &main.join(".git"))
        );
        assert_eq!(discover(&real).expect("looked"), None);
        assert_eq!(discover(&main.join(".git/refs")).expect("looked"), None, "inside of it");
        // A folder of that name is not always a repository.
        fs_err::create_dir_all(main.join("src/.git/hooks")).expect("made");
        let around = discover(&main.join("src")).expect("found").expect("a repository");
        assert_eq!(around.worktree, main);
    }

    #[test]
    fn bare_repository_is_treated_as_plain_folder() {
        let (_dir, real) = repository();
        let main = real.join("main");
        git(&main, &["clone", "-q", "--bare", ".", "x"]);
        let found = discover(&main.join("x")).expect("found").expect("a repository");
        assert_eq!(found.worktree, main, "the one around it");
        git(&main, &["clone", "-q", "--bare", ".", "../alone"]);
        assert_eq!(discover(&real.join("alone")).expect("looked"), None);
        assert_eq!(discover(&real.join("alone/refs")).expect("looked"), None);
    }

    #[test]
    fn linked_worktree_requires_matching_back_pointer() {
        let (_dir, real) = repository();
        let (main, side) = (real.join("main"), real.join("side"));
        git(&main, &["worktree", "add", "-q", "-b", "side", "../side"]);
        let location = discover(&side).expect("found").expect("a repository");
        assert_eq!(location.git_dir, main.join(".git/worktrees/side"));
        assert_eq!(location.common_dir, main.join(".git"));

        // A copy of the `.git` file elsewhere, and a worktree that was moved.
        fs_err::create_dir(real.join("copy")).expect("made");
        fs_err::copy(side.join(".git"), real.join("copy/.git")).expect("copied");
        for folder in ["copy", "moved"] {
            if folder == "moved" {
                fs_err::rename(&side, real.join("moved")).expect("moved");
            }
            let error = discover(&real.join(folder)).unwrap_err();
            assert!(matches!(error, RepositoryError::NoBackPointer { .. }), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("safe.directory")));
        }
        // A shared folder that does not list it: the other repository of a hostile one.
        let evil = real.join("evil");
        fs_err::create_dir_all(evil.join("state")).expect("made");
        fs_err::write(evil.join(".git"), "gitdir: state\n").expect("written");
        fs_err::write(evil.join("state/HEAD"), "ref: refs/heads/main\n").expect("written");
        fs_err::write(evil.join("state/gitdir"), "../.git\n").expect("written");
        fs_err::write(evil.join("state/commondir"), "../../main/.git\n").expect("written");
        let error = discover(&evil).unwrap_err();
        assert!(matches!(error, RepositoryError::NoBackPointer { .. }), "{error}");
        fs_err::remove_file(evil.join(".git")).expect("removed");
        fs_err::rename(evil.join("state"), evil.join(".git")).expect("moved");
        let error = discover(&evil).unwrap_err();
        assert!(matches!(error, RepositoryError::NoBackPointer { .. }), "{error}");
    }

    #[test]
    fn submodule_requires_matching_back_pointer() {
        let (_dir, real) = repository();
        let (main, outer) = (real.join("main"), real.join("outer"));
        fs_err::create_dir(&outer).expect("made");
        git(&outer, &["init", "-q"]);
        git(&outer, &["submodule", "--quiet", "add", &main.display().to_string(), "sub"]);
        let location = discover(&outer.join("sub")).expect("found").expect("a repository");
        assert_eq!(location.worktree, outer.join("sub"));
        assert_eq!(location.git_dir, outer.join(".git/modules/sub"));
        fs_err::create_dir(outer.join("other")).expect("made");
        fs_err::write(outer.join("other/.git"), "gitdir: ../.git/modules/sub\n").expect("written");
        assert!(discover(&outer.join("other")).is_err());
    }

    #[test]
    fn missing_back_pointer_requires_explicit_safe_directory() {
        let (_dir, real) = repository();
        fs_err::create_dir(real.join("split")).expect("made");
        git(&real.join("split"), &["init", "-q", "--separate-git-dir", "../apart"]);
        fs_err::create_dir(real.join("linked")).expect("made");
        symlink(real.join("main/.git"), real.join("linked/.git")).expect("linked");
        for folder in ["split", "linked"] {
            let folder = real.join(folder);
            let error = discover(&folder).unwrap_err();
            assert!(matches!(error, RepositoryError::NoBackPointer { .. }), "{error}");
            assert!(discover_repository(&folder, &|| trusting("*")).is_err());
            let named = folder.display().to_string();
            let found = discover_repository(&folder, &|| trusting(&named)).expect("trusted");
            assert_eq!(found.expect("a repository").worktree, folder);
        }
    }

    #[test]
    fn foreign_owned_repository_is_an_error_with_hint() {
        let (_dir, real) = repository();
        let main = real.join("main");
        let other = rustix::process::geteuid().as_raw() + 1;
        let error = discover_for_user(other, &main, &SafeDirectories::default).unwrap_err();
        assert!(matches!(&error, RepositoryError::ForeignOwner { path, .. } if *path == main));
        assert!(error.hint().is_some_and(|hint| hint.contains("safe.directory")));
        for value in ["*".to_owned(), main.display().to_string(), format!("{}/*", real.display())] {
            let found = discover_for_user(other, &main, &|| trusting(&value)).expect("trusted");
            assert!(found.is_some(), "{value}");
        }
    }

    #[test]
    fn pipes_devices_and_invalid_git_files_are_errors() {
        let fifo = |path: &Path| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).expect("a pipe");
        };
        let zero = |path: &Path| symlink("/dev/zero", path).expect("linked");
        let text = |path: &Path| fs_err::write(path, "nonsense\n").expect("written");
        for replace in [&fifo as &dyn Fn(&Path), &zero, &text] {
            let (_dir, real) = repository();
            let folder = real.join("main/src");
            replace(&folder.join(".git"));
            let error = discover(&folder).unwrap_err();
            assert!(matches!(error, RepositoryError::Unreadable { .. }), "{error}");
        }
        for name in ["commondir", "gitdir"] {
            for replace in [&fifo as &dyn Fn(&Path), &zero] {
                let (_dir, real) = repository();
                git(&real.join("main"), &["worktree", "add", "-q", "-b", "side", "../side"]);
                let path = real.join("main/.git/worktrees/side").join(name);
                fs_err::remove_file(&path).expect("removed");
                replace(&path);
                let error = discover(&real.join("side")).unwrap_err();
                assert!(matches!(error, RepositoryError::Unreadable { .. }), "{name}: {error}");
            }
        }
        let (_dir, real) = repository();
        fs_err::write(real.join("main/src/.git"), "gitdir: /nowhere/at/all\n").expect("written");
        assert_eq!(discover(&real.join("main/src")).expect("looked"), None, "it leads nowhere");
    }
}
