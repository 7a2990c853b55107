//! Reads the user's git configuration files without starting git.

use std::io;
use std::path::{Path, PathBuf};

use turnstone_snapshot::{UserGitSettings, find_excludes_file, read_bounded_file};

/// Size limit of configuration and excludes files.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Location of the user's git configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct GitConfigLocation {
    /// Home directory.
    pub(crate) home: Option<PathBuf>,
    /// Configuration directory, if not `~/.config`.
    pub(crate) config: Option<PathBuf>,
}

impl GitConfigLocation {
    /// Reads the settings; `None` if they cannot be parsed, in which case none are assumed.
    pub(crate) fn read_config(&self) -> Option<UserGitSettings> {
        UserGitSettings::collect(self.home.as_deref()?, self.config.as_deref(), &read_optional_file)
            .ok()
    }

    /// Reads the excludes file named by the settings; empty if there is none.
    pub(crate) fn read_excludes(&self, settings: Option<&UserGitSettings>) -> Vec<u8> {
        let config = settings.map(|settings| settings.config.join(&b'\n')).unwrap_or_default();
        let Some(home) = &self.home else {
            return Vec::new();
        };
        let file = find_excludes_file(&config, home, self.config.as_deref()).ok().flatten();
        file.and_then(|file| read_optional_file(&file).ok().flatten()).unwrap_or_default()
    }
}

/// Reads a file that may be missing.
fn read_optional_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    read_bounded_file(path, MAX_FILE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_excludes_file_overrides_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let (home, config) = (dir.path().to_owned(), dir.path().join(".config"));
        fs_err::create_dir_all(config.join("git")).unwrap();
        let git = GitConfigLocation { home: Some(home.clone()), config: Some(config.clone()) };
        let excludes = || git.read_excludes(git.read_config().as_ref());
        assert_eq!(excludes(), b"");

        fs_err::write(config.join("git/ignore"), "usual").unwrap();
        assert_eq!(excludes(), b"usual");

        let text = "[user]\n\texcludesFile = /no\n[core]\n\texcludesfile = \"~/mine\"\n[x]\n";
        fs_err::write(home.join(".gitconfig"), text).unwrap();
        fs_err::write(home.join("mine"), "set").unwrap();
        assert_eq!(excludes(), b"set");
    }
}
