//! The git repository of a directory: found by us, verified, and then named to git.

use std::io;
use std::path::Path;

use turnstone_process::{Git, GitRepository};
use turnstone_snapshot::{
    RepositoryError, RepositoryLocation, SafeDirectories, UserGitSettings, discover_repository,
    read_bounded_file,
};

use crate::engine::Engine;
use crate::error::Result;

/// No settings file of the user is larger.
const SETTINGS_BYTES: u64 = 16 << 20;

impl Engine {
    /// Finds the repository whose worktree holds a directory; `None` if there is none.
    ///
    /// Bare repositories are not looked for. Git is not started.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::Repository`] for one that is there and must not be used;
    /// [`crate::EngineError::Io`] if the directory is gone.
    pub fn find_repository(&self, directory: &Path) -> Result<Option<Git>> {
        let real = fs_err::canonicalize(directory)?;
        let found = discover_repository(&real, &|| self.safe_directories())?;
        Ok(found.map(|location| self.git(location)))
    }

    /// Returns the repository whose worktree begins in a directory; one further up does not count.
    ///
    /// # Errors
    ///
    /// As [`Engine::find_repository`]; if there is none.
    pub(crate) fn get_repository_at(&self, directory: &Path) -> Result<Git> {
        let real = fs_err::canonicalize(directory)?;
        let found = self.find_repository(&real)?;
        let found = found.filter(|git| git.repository().worktree == real);
        let source = || io::Error::other("its .git leads to no repository");
        Ok(found.ok_or_else(|| RepositoryError::Unreadable { path: real, source: source() })?)
    }

    fn git(&self, location: RepositoryLocation) -> Git {
        let RepositoryLocation { worktree, git_dir, common_dir } = location;
        let repository = GitRepository { worktree, git_dir, common_dir };
        Git::new(repository, self.settings.git.clone())
    }

    /// The folders that the user's settings declare as safe, read now: an error names the command that
    /// adds one, and a running server has to notice it.
    fn safe_directories(&self) -> SafeDirectories {
        let git = &self.settings.git;
        let Some(home) = git.home.as_deref().map(Path::new) else {
            return SafeDirectories::default();
        };
        let config_home = git.config_home.as_deref().map(Path::new);
        let read = |path: &Path| read_bounded_file(path, SETTINGS_BYTES);
        let settings = UserGitSettings::collect(home, config_home, &read);
        settings.map(|settings| SafeDirectories::from_settings(&settings, home)).unwrap_or_default()
    }
}
