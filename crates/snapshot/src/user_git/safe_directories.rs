//! The folders that the user's own git settings declare as trusted, regardless of their owner.

use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice};

use super::user_settings::expand_path;
use super::{GitConfig, UserGitSettings};

/// The values of `safe.directory` in the user's and the system's configuration, never a repository's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafeDirectories {
    /// `*`: every folder.
    all: bool,
    folders: Vec<PathBuf>,
    /// `/some/folder/*`: every folder below it.
    parents: Vec<PathBuf>,
}

impl SafeDirectories {
    /// Reads the settings. What cannot be understood is not trusted.
    #[must_use]
    pub fn from_settings(settings: &UserGitSettings, home: &Path) -> Self {
        let mut found = Self::default();
        // Gathered with the most specific file first; the last value counts.
        let configs = settings.config.iter().rev().filter_map(|text| GitConfig::parse(text).ok());
        for value in configs.flat_map(|config| config.safe_directories) {
            found.add(&value, home);
        }
        found
    }

    fn add(&mut self, value: &BString, home: &Path) {
        match value.as_bytes() {
            b"" => *self = Self::default(),
            b"*" => self.all = true,
            value => {
                let (value, list) = match value.strip_suffix(b"/*") {
                    Some(parent) => (parent, &mut self.parents),
                    None => (value, &mut self.folders),
                };
                let path = expand_path(value, home, Path::new("/")).ok();
                let path = path.filter(|_| value.starts_with(b"/") || value.starts_with(b"~/"));
                let real = |path: PathBuf| fs_err::canonicalize(&path).unwrap_or(path);
                list.extend(path.map(real));
            }
        }
    }

    /// True if the user trusts a worktree regardless of its owner.
    #[must_use]
    pub fn trusts(&self, worktree: &Path) -> bool {
        self.all || self.names_explicitly(worktree)
    }

    /// True if the user named this worktree, or a folder above it, in so many words.
    #[must_use]
    pub fn names_explicitly(&self, worktree: &Path) -> bool {
        let is_below = |parent: &PathBuf| worktree != parent && worktree.starts_with(parent);
        self.folders.iter().any(|folder| folder == worktree) || self.parents.iter().any(is_below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(configs: &[&str]) -> SafeDirectories {
        let config = configs.iter().map(|text| text.as_bytes().to_vec()).collect();
        SafeDirectories::from_settings(
            &UserGitSettings { config, attributes: Vec::new() },
            Path::new("/h"),
        )
    }

    #[test]
    fn safe_directories_follow_git() {
        let safe = read(&["[safe]\n\tdirectory = /srv/a\n\tdirectory = ~/b\n\tdirectory = /c/*\n"]);
        for trusted in ["/srv/a", "/h/b", "/c/d", "/c/d/e"] {
            assert!(
                safe.trusts(Path::new(trusted)) && safe.names_explicitly(Path::new(trusted)),
                "{trusted}"
            );
        }
        for foreign in ["/srv", "/srv/a/b", "/c", "/cd", "/"] {
            assert!(!safe.trusts(Path::new(foreign)), "{foreign}");
        }
        let all = read(&["[safe]\n\tdirectory = *\n"]);
        assert!(all.trusts(Path::new("/x")) && !all.names_explicitly(Path::new("/x")));
    }

    #[test]
    fn empty_safe_directory_value_resets_the_list() {
        let user = "[safe]\n\tdirectory =\n\tdirectory = /b\n";
        let safe = read(&[user, "[safe]\n\tdirectory = *\n"]);
        assert!(!safe.trusts(Path::new("/a")) && safe.trusts(Path::new("/b")));
        for odd in ["[safe]\n\tdirectory = .\n", "[safe]\n\tdirectory = x\n", "[safe\n", ""] {
            assert_eq!(read(&[odd]), SafeDirectories::default(), "{odd}");
        }
    }
}
