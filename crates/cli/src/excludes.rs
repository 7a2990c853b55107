//! The user's excludes file: which one git would use, and what is in it. No git is asked.

use std::path::{Path, PathBuf};

/// Where a user's git keeps its settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct GitHome {
    /// The home directory.
    pub(crate) home: Option<PathBuf>,
    /// The directory of settings, `~/.config` as a rule.
    pub(crate) config: Option<PathBuf>,
}

impl GitHome {
    /// Reads the excludes file: the one that is set, else the usual one; empty if there is none.
    pub(crate) fn excludes(&self) -> Vec<u8> {
        // The file in the home directory wins.
        let settings = [
            self.home.as_ref().map(|home| home.join(".gitconfig")),
            self.config.as_ref().map(|config| config.join("git/config")),
        ];
        let texts = settings.iter().flatten().filter_map(|path| fs_err::read_to_string(path).ok());
        let set = texts.into_iter().find_map(|text| excludes_file(&text));
        let usual = || self.config.as_ref().map(|config| config.join("git/ignore"));
        let file = set.map(|text| self.expand(&text)).or_else(usual);
        file.and_then(|file| fs_err::read(file).ok()).unwrap_or_default()
    }

    fn expand(&self, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_) | None, _) => Path::new(text).to_owned(),
        }
    }
}

/// Finds `core.excludesFile` in the text of a git configuration.
fn excludes_file(text: &str) -> Option<String> {
    let mut in_core = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_core = line.trim_end_matches(']').trim_start_matches('[').trim() == "core";
        } else if let Some((key, value)) = line.split_once('=')
            && in_core
            && key.trim().eq_ignore_ascii_case("excludesfile")
        {
            found = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_is_set_wins_over_the_usual_one() {
        let dir = tempfile::tempdir().unwrap();
        let (home, config) = (dir.path().to_owned(), dir.path().join(".config"));
        fs_err::create_dir_all(config.join("git")).unwrap();
        let git = GitHome { home: Some(home.clone()), config: Some(config.clone()) };
        assert_eq!(git.excludes(), b"");

        fs_err::write(config.join("git/ignore"), "usual").unwrap();
        assert_eq!(git.excludes(), b"usual");

        let text = "[user]\n\texcludesFile = /no\n[core]\n\texcludesfile = \"~/mine\"\n[x]\n";
        fs_err::write(home.join(".gitconfig"), text).unwrap();
        fs_err::write(home.join("mine"), "set").unwrap();
        assert_eq!(git.excludes(), b"set");
    }
}
