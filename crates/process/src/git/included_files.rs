//! The files that a repository's own configuration includes, looked at before git opens them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::error::GitError;
use super::repository_check::{TEXT_BYTES, check_text_file};

/// Files that one repository may include.
const MOST_FILES: usize = 64;

/// Refuses a repository whose configuration includes something that is no file, at any depth and on any
/// condition.
///
/// `list` returns what `git config --file FILE --no-includes --list -z` prints; it is called only for
/// files that mention an include.
///
/// # Errors
///
/// [`GitError::UnusableFile`], or what `list` returns.
pub(super) fn check_included_files(
    files: [PathBuf; 3],
    home: Option<&Path>,
    list: impl Fn(&Path) -> Result<Vec<u8>, GitError>,
) -> Result<(), GitError> {
    let mut pending = Vec::from(files);
    let mut seen = BTreeSet::new();
    while let Some(file) = pending.pop() {
        if !seen.insert(file.clone()) {
            continue;
        }
        if seen.len() > MOST_FILES {
            let problem = format!("is one of more than {MOST_FILES} included files");
            return Err(GitError::UnusableFile { path: file, problem });
        }
        check_text_file(&file)?;
        let mentions = mentions_include(&file);
        if mentions.map_err(|source| GitError::Start { dir: file.clone(), source })? {
            pending.extend(included(&list(&file)?, &file, home)?);
        }
    }
    Ok(())
}

/// True if a file could include another: the word cannot be written in any other way.
fn mentions_include(path: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => std::fs::File::from(fd),
        // Git cannot open it either, and reports it.
        Err(_) => return Ok(false),
    };
    let mut text = Vec::new();
    file.take(TEXT_BYTES).read_to_end(&mut text)?;
    Ok(text.windows(7).any(|word| word.eq_ignore_ascii_case(b"include")))
}

/// The files that the settings of `file` include.
fn included(list: &[u8], file: &Path, home: Option<&Path>) -> Result<Vec<PathBuf>, GitError> {
    let settings = list.split(|byte| *byte == 0).filter_map(|entry| {
        let end = entry.iter().position(|byte| *byte == b'\n')?;
        Some((entry.get(..end)?, entry.get(end + 1..)?))
    });
    let is_include = |key: &[u8]| {
        key == b"include.path" || (key.starts_with(b"includeif.") && key.ends_with(b".path"))
    };
    let paths = settings.filter(|(key, _)| is_include(key)).map(|(_, value)| value);
    let folder = file.parent().unwrap_or(Path::new("/"));
    let resolved = paths.map(|value| match resolve(value, folder, home) {
        ResolvedPath::File(path) => Ok(Some(path)),
        ResolvedPath::NoHome => Ok(None),
        ResolvedPath::ExpandedByGit => Err(expanded_by_git_error(value)),
    });
    resolved.filter_map(Result::transpose).collect()
}

/// What a setting that holds a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResolvedPath {
    /// This path, as git understands it.
    File(PathBuf),
    /// A path below a home that is unknown: git fails, too.
    NoHome,
    /// Only git can tell: the home of another user (`~user/`), the folder git is installed in
    /// (`%(prefix)/`) or a word of a newer git (`:(optional)`).
    ExpandedByGit,
}

/// Finds the path that a setting names.
pub(super) fn resolve(value: &[u8], folder: &Path, home: Option<&Path>) -> ResolvedPath {
    if let Some(rest) = value.strip_prefix(b"~/") {
        let path = home.map(|home| home.join(OsStr::from_bytes(rest)));
        return path.map_or(ResolvedPath::NoHome, ResolvedPath::File);
    }
    match value {
        [b'~', ..] | [b'%' | b':', b'(', ..] => ResolvedPath::ExpandedByGit,
        _ => ResolvedPath::File(folder.join(OsStr::from_bytes(value))),
    }
}

/// A repository may not set a path that cannot be looked at before git opens it.
pub(super) fn expanded_by_git_error(value: &[u8]) -> GitError {
    let problem = "is a path that only git can expand; only your own configuration may set it";
    GitError::UnusableFile { path: OsStr::from_bytes(value).into(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_are_resolved_as_git_does() {
        let list = b"core.bare\nfalse\0include.path\n../a b\0includeif.gitdir:/x/.path\n/abs\0\
            include.path\n~/own\0core.empty\0";
        let file = Path::new("/r/.git/config");
        let found = included(list, file, Some(Path::new("/h"))).unwrap();
        assert_eq!(found, ["/r/.git/../a b", "/abs", "/h/own"].map(PathBuf::from));
        assert!(included(b"include.path\n~other/x\0", file, None).is_err());
    }

    #[test]
    fn files_without_an_include_are_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let files = || [at("config"), at("config.worktree"), at("none")];
        let list = |_: &Path| Err(GitError::Missing);
        fs_err::write(at("config"), "[core]\n\tbare = false\n").unwrap();
        check_included_files(files(), None, list).unwrap();
        fs_err::write(at("config.worktree"), "[InClude]\n\tpath = x\n").unwrap();
        assert!(matches!(check_included_files(files(), None, list), Err(GitError::Missing)));
    }

    #[test]
    fn a_circle_of_includes_ends() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        fs_err::write(&file, "[include]\n").unwrap();
        let list = |_: &Path| Ok(b"include.path\nconfig\0".to_vec());
        check_included_files([file.clone(), file.clone(), file], None, list).unwrap();
    }
}
