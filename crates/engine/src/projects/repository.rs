//! The git repository of a directory: found by us, verified, and then named to git.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::project_match::{DirectoryFacts, normalize_origin};
use turnstone_process::{Git, GitEnvironment, GitError, GitRepository};
use turnstone_snapshot::{
    RepositoryError, RepositoryLocation, SafeDirectories, SnapshotError, UserGitSettings,
    discover_repository, read_bounded_file, read_directory_identity,
};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;

/// No settings file of the user is larger.
const SETTINGS_BYTES: u64 = 16 << 20;

/// Finds the git repository of a directory.
#[derive(Clone)]
pub struct Repositories {
    pub(crate) git: GitEnvironment,
    pub(crate) snapshots: Arc<SnapshotHandles>,
}

impl Repositories {
    /// Finds the repository whose worktree holds a directory; `None` if there is none.
    ///
    /// Bare repositories are not looked for. Git is not started.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::Repository`] for one that is there and must not be used;
    /// [`crate::EngineError::Io`] if the directory is gone.
    pub fn find(&self, directory: &Path) -> Result<Option<Git>> {
        let real = fs_err::canonicalize(directory)?;
        let found = discover_repository(&real, &|| self.safe_directories())?;
        Ok(found.map(|location| self.git(location)))
    }

    /// Returns the repository whose worktree begins in a directory; one further up does not count.
    ///
    /// # Errors
    ///
    /// As [`Self::find`]; if there is none.
    pub(crate) fn get_at(&self, directory: &Path) -> Result<Git> {
        let real = fs_err::canonicalize(directory)?;
        let found = self.find(&real)?;
        let found = found.filter(|git| git.repository().worktree == real);
        let source = || io::Error::other("its .git leads to no repository");
        Ok(found.ok_or_else(|| RepositoryError::Unreadable { path: real, source: source() })?)
    }

    fn git(&self, location: RepositoryLocation) -> Git {
        let RepositoryLocation { worktree, git_dir, common_dir } = location;
        let repository = GitRepository { worktree, git_dir, common_dir };
        Git::new(repository, self.git.clone())
    }

    /// The folders that the user's settings declare as safe, read now: an error names the command that
    /// adds one, and a running server has to notice it.
    fn safe_directories(&self) -> SafeDirectories {
        let git = &self.git;
        let Some(home) = git.home.as_deref().map(Path::new) else {
            return SafeDirectories::default();
        };
        let config_home = git.config_home.as_deref().map(Path::new);
        let read = |path: &Path| read_bounded_file(path, SETTINGS_BYTES);
        let settings = UserGitSettings::collect(home, config_home, &read);
        settings.map(|settings| SafeDirectories::from_settings(&settings, home)).unwrap_or_default()
    }

    /// Returns the root of a directory and what identifies it. Outside of repositories, the root is the
    /// closest captured directory above, so that a session is found from the root whose files it changes;
    /// else it is the directory itself.
    ///
    /// Without a usable git the place of the repository is known, and its history is not.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::Repository`] if there is a repository that must not be used, and
    /// [`crate::EngineError::Git`] if git could not tell: what is not known must not make another
    /// project of it.
    pub(crate) fn gather_directory_facts(&self, real: &Path) -> Result<(PathBuf, DirectoryFacts)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let Some(git) = self.find(real)? else {
            let captured = self
                .snapshots
                .registry()
                .find_captured_root(real, self.snapshots.policy())
                .map_err(SnapshotError::from)?;
            let root = captured.unwrap_or_else(|| real.to_owned());
            let facts = facts_without_git(&root)?;
            return Ok((root, facts));
        };
        let repository = git.repository();
        let placed = DirectoryFacts {
            common_dir: Some(text(&repository.common_dir)),
            ..facts_without_git(&repository.worktree)?
        };
        let facts = match gather_history(&git) {
            Err(GitError::Missing | GitError::TooOld { .. }) => placed,
            history => {
                let DirectoryFacts { root_commits, shallow, origin, .. } = history?;
                DirectoryFacts { root_commits, shallow, origin, ..placed }
            }
        };
        Ok((repository.worktree.clone(), facts))
    }
}

/// What is known of a directory without git.
pub(super) fn facts_without_git(root: &Path) -> io::Result<DirectoryFacts> {
    Ok(DirectoryFacts {
        directory: root.to_string_lossy().into_owned(),
        identity: read_directory_identity(root)?,
        ..DirectoryFacts::default()
    })
}

/// What git knows of the history of a repository.
fn gather_history(git: &Git) -> std::result::Result<DirectoryFacts, GitError> {
    Ok(DirectoryFacts {
        root_commits: git.history().list_root_commits()?,
        // A history that is cut off names no root.
        shallow: git.history().is_shallow()?,
        origin: git.find_remote("origin")?.as_deref().and_then(normalize_origin),
        ..DirectoryFacts::default()
    })
}
