//! Which program is git, and whether it is new enough.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, access};

use super::error::GitError;

/// The oldest git that knows `safe.bareRepository`, and with it everything else that the environment
/// relies on: `GIT_CONFIG_COUNT` (2.31), `GIT_CONFIG_GLOBAL` (2.32), `worktree list -z` (2.36).
pub(super) const MIN_GIT_VERSION: GitVersion = GitVersion { major: 2, minor: 38 };

/// The programs that are new enough, so that each is asked once. One that is too old is asked again: it
/// may have been upgraded.
static ACCEPTED_PROGRAMS: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// The part of a version that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GitVersion {
    major: u32,
    minor: u32,
}

impl fmt::Display for GitVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl GitVersion {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next = || parts.next()?.parse().ok();
        Some(Self { major: next()?, minor: next()? })
    }
}

/// Finds git in the absolute folders of `PATH`.
///
/// Relative folders do not count: git runs in folders whose content others control.
pub(super) fn find_program(path: &OsStr) -> Result<PathBuf, GitError> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let is_program =
        |file: &PathBuf| file.is_file() && access(file.as_path(), Access::EXEC_OK).is_ok();
    folders.map(|folder| folder.join("git")).find(is_program).ok_or(GitError::Missing)
}

/// Returns the version of `program`, which `ask` finds out the first time, in the words of `git version`.
///
/// # Errors
///
/// [`GitError::TooOld`], or git did not tell its version.
pub(super) fn require_version(
    program: &PathBuf,
    ask: impl FnOnce() -> Result<Vec<u8>, GitError>,
) -> Result<String, GitError> {
    let accepted = || ACCEPTED_PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = accepted().get(program) {
        return Ok(version.clone());
    }
    let answer = String::from_utf8_lossy(&ask()?).trim_end().to_owned();
    let word = answer.strip_prefix("git version ").and_then(|rest| rest.split(' ').next());
    let version = word.and_then(|word| Some((word, GitVersion::parse(word)?)));
    let Some((found, version)) = version else {
        let answer = answer.chars().take(200).collect();
        return Err(GitError::Unreadable { command: "version".to_owned(), answer });
    };
    if version < MIN_GIT_VERSION {
        let (program, minimum) = (program.clone(), MIN_GIT_VERSION.to_string());
        return Err(GitError::TooOld { program, found: found.to_owned(), minimum });
    }
    accepted().insert(program.clone(), found.to_owned());
    Ok(found.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, answer: &str) -> Result<String, GitError> {
        require_version(&PathBuf::from(name), || Ok(answer.as_bytes().to_vec()))
    }

    #[test]
    fn versions_below_the_minimum_are_refused() {
        for old in ["1.9.5", "2.37.7", "2.9.0", "2.37.0.windows.1"] {
            let error = check(old, &format!("git version {old}\n")).unwrap_err();
            assert!(matches!(&error, GitError::TooOld { found, .. } if found == old), "{error}");
            assert!(error.to_string().contains("2.38"), "{error}");
        }
        for new in ["2.38.0", "2.39.5", "2.47.3", "2.100.0.rc1", "3.0.1"] {
            assert_eq!(check(new, &format!("git version {new} (Vendor 1)\n")).unwrap(), new);
        }
        for odd in ["", "git version", "git version x.y", "hub version 2.40.0"] {
            assert!(matches!(check(odd, odd), Err(GitError::Unreadable { .. })), "{odd:?}");
        }
    }

    #[test]
    fn accepted_git_version_is_cached() {
        let program = PathBuf::from("/nowhere/asked-once/git");
        assert!(require_version(&program, || Ok(b"git version 2.40.0".to_vec())).is_ok());
        assert_eq!(require_version(&program, || Err(GitError::Missing)).unwrap(), "2.40.0");
    }
}
