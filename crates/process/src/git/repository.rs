//! The repository that git works on: always named, never discovered by git itself.

use std::io;
use std::path::{Path, PathBuf};

use super::error::GitError;

/// The three folders that are passed to git. The caller has found and verified them: git itself looks for
/// no repository, and neither `core.worktree` nor `core.bare` of the repository counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitRepository {
    /// The folder that holds the files.
    pub worktree: PathBuf,
    /// The folder of this worktree's own state: `HEAD`, the index.
    pub git_dir: PathBuf,
    /// The folder that all worktrees share: objects, references, configuration.
    pub common_dir: PathBuf,
}

impl GitRepository {
    /// Returns the linked worktree that git has just created at `path`.
    ///
    /// # Errors
    ///
    /// [`GitError::Start`] if its `.git` file cannot be read or does not lead into this repository.
    pub(super) fn linked_worktree(&self, path: &Path) -> Result<Self, GitError> {
        let failed = |source| GitError::Start { dir: path.to_owned(), source };
        let text = fs_err::read(path.join(".git")).map_err(failed)?;
        let git_dir = text.strip_prefix(b"gitdir: ").map(|rest| path.join(to_path(rest)));
        let git_dir = git_dir.map(fs_err::canonicalize).transpose().map_err(failed)?;
        let common_dir = fs_err::canonicalize(&self.common_dir).map_err(failed)?;
        let git_dir = git_dir.filter(|dir| dir.parent() == Some(&common_dir.join("worktrees")));
        let foreign = || failed(io::Error::other("its .git file leads to another repository"));
        let git_dir = git_dir.ok_or_else(foreign)?;
        Ok(Self { worktree: path.to_owned(), git_dir, common_dir })
    }
}

fn to_path(text: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii_end()))
}
