//! The user's own git settings: found for callers who may read them. Nothing is read here.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::GitConfig;

/// How many files one configuration may pull in.
const MAX_CONFIG_FILES: usize = 64;

/// What the user's and the system's git settings say; without it no index is trusted (R10).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserGitSettings {
    /// The texts of the system's and the user's configuration files and of all they include.
    pub config: Vec<Vec<u8>>,
    /// The texts of the system's and the user's attributes files.
    pub attributes: Vec<Vec<u8>>,
}

impl UserGitSettings {
    /// Collects the settings through `read`, which returns nothing for a missing file.
    ///
    /// `home` is the home directory, `xdg` the value of `XDG_CONFIG_HOME`. Conditional includes are
    /// followed whatever their condition.
    ///
    /// # Errors
    ///
    /// A file cannot be read or parsed: its settings are unknown, and nothing may be reused.
    pub fn collect(
        home: &Path,
        xdg: Option<&Path>,
        read: &dyn Fn(&Path) -> io::Result<Option<Vec<u8>>>,
    ) -> io::Result<Self> {
        let xdg = xdg.map_or_else(|| home.join(".config"), Path::to_owned).join("git");
        let mut todo =
            vec![PathBuf::from("/etc/gitconfig"), xdg.join("config"), home.join(".gitconfig")];
        let mut found = Self::default();
        let mut attributes = vec![PathBuf::from("/etc/gitattributes"), xdg.join("attributes")];
        let mut seen = 0;
        while let Some(path) = todo.pop() {
            seen += 1;
            if seen > MAX_CONFIG_FILES {
                return Err(io::Error::other("too many configuration files"));
            }
            let Some(text) = read(&path)? else {
                continue;
            };
            let config = GitConfig::parse(&text)?;
            let at = path.parent().unwrap_or(home);
            for include in &config.includes {
                todo.push(expand_path(include, home, at)?);
            }
            if let Some(path) = &config.attributes_file {
                attributes.push(expand_path(path, home, at)?);
            }
            found.config.push(text);
        }
        for path in attributes {
            found.attributes.extend(read(&path)?);
        }
        Ok(found)
    }
}

/// Finds the user's excludes file: named by `config`, the texts of his configuration one after the
/// other, or where git looks by default. The file need not exist.
///
/// # Errors
///
/// The configuration cannot be understood.
pub fn find_excludes_file(
    config: &[u8],
    home: &Path,
    xdg: Option<&Path>,
) -> io::Result<Option<PathBuf>> {
    match GitConfig::parse(config)?.excludes_file {
        // An empty name means none.
        Some(path) if path.is_empty() => Ok(None),
        Some(path) => expand_path(&path, home, home).map(Some),
        None => {
            let folder = xdg.filter(|xdg| !xdg.as_os_str().is_empty());
            let folder = folder.map_or_else(|| home.join(".config"), Path::to_owned);
            Ok(Some(folder.join("git/ignore")))
        }
    }
}

pub(super) fn expand_path(path: &[u8], home: &Path, at: &Path) -> io::Result<PathBuf> {
    if let Some(rest) = path.strip_prefix(b"~/") {
        return Ok(home.join(OsStr::from_bytes(rest)));
    }
    if path.starts_with(b"~") || path.starts_with(b"%(") {
        return Err(io::Error::other("a path that only git can find"));
    }
    Ok(at.join(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn excludes_file_path_follows_git() {
        let find = |config: &str, xdg: Option<&str>| {
            find_excludes_file(config.as_bytes(), Path::new("/h"), xdg.map(Path::new)).unwrap()
        };
        let at = |path: &str| Some(PathBuf::from(path));

        assert_eq!(find("", None), at("/h/.config/git/ignore"));
        assert_eq!(find("", Some("")), at("/h/.config/git/ignore"));
        assert_eq!(find("", Some("/x")), at("/x/git/ignore"));
        let named = "[core]\n\texcludesFile = ~/ignore\n";
        assert_eq!(find(named, Some("/x")), at("/h/ignore"));
        let twice = format!("{named}[user]\n\tname = x\n[Core]\n\texcludesfile = \"/a b\"\n");
        assert_eq!(find(&twice, None), at("/a b"));
        assert_eq!(find("[core]\n\texcludesFile =\n", None), None);
        assert!(find_excludes_file(b"[core\n", Path::new("/h"), None).is_err());
    }

    #[test]
    fn includes_are_followed_and_unreadable_file_is_an_error() {
        let files = BTreeMap::from([
            ("/h/.gitconfig", "[includeIf \"gitdir:~/w/\"]\n\tpath = more\n"),
            ("/h/more", "[core]\n\tautocrlf = input\n\tattributesFile = ~/attrs\n"),
            ("/h/attrs", "*.x filter=y\n"),
        ]);
        let read = |path: &Path| {
            let text = path.to_str().and_then(|path| files.get(path));
            Ok(text.map(|text| text.as_bytes().to_vec()))
        };

        let found = UserGitSettings::collect(Path::new("/h"), None, &read).unwrap();

        assert_eq!(found.config.len(), 2);
        assert_eq!(found.attributes, [b"*.x filter=y\n".to_vec()]);
        let denied = |_: &Path| Err(io::Error::other("denied"));
        assert!(UserGitSettings::collect(Path::new("/h"), None, &denied).is_err());
        let endless = |_: &Path| Ok(Some(b"[include]\n\tpath = again\n".to_vec()));
        assert!(UserGitSettings::collect(Path::new("/h"), None, &endless).is_err());
    }
}
