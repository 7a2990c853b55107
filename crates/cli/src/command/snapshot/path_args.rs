//! Resolves typed paths relative to the root of the worktree.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use turnstone_snapshot::RelPath;

use crate::error::CliError;

/// The paths relative to the root of the worktree; `None` means the whole worktree.
///
/// # Errors
///
/// [`CliError::Refused`] if a path is outside of the worktree.
pub(crate) fn resolve_paths(
    root: &Path,
    directory: &Path,
    typed: &[PathBuf],
) -> Result<Option<BTreeSet<RelPath>>, CliError> {
    let mut found = BTreeSet::new();
    for path in typed {
        let below = relative_to_root(root, directory, path)
            .ok_or_else(|| outside_root_error(root, path))?;
        if below.as_os_str().is_empty() {
            return Ok(None);
        }
        let path = RelPath::new(below.as_os_str().as_bytes()).map_err(|error| {
            CliError::Refused { what: format!("{}: {error}", path.display()), hint: None }
        })?;
        found.insert(path);
    }
    Ok(Some(found))
}

fn outside_root_error(root: &Path, path: &Path) -> CliError {
    let what = format!("{} is outside of {}", path.display(), root.display());
    CliError::Refused { what, hint: Some("use a path inside this directory".to_owned()) }
}

/// Resolves the path lexically, because the file may no longer exist.
fn relative_to_root(root: &Path, directory: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::Prefix(_) | Component::RootDir => at = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => {
                at.pop();
            }
            Component::Normal(name) => at.push(name),
        }
    }
    at.strip_prefix(root).ok().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_relative_to_the_current_directory() {
        let meant = |directory: &str, path: &str| {
            let typed = [PathBuf::from(path)];
            let found = resolve_paths(Path::new("/p"), Path::new(directory), &typed).ok()?;
            Some(found.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")))
        };
        assert_eq!(meant("/p/src", "a").flatten().as_deref(), Some("src/a"));
        assert_eq!(meant("/p/src", "../b/./c").flatten().as_deref(), Some("b/c"));
        assert_eq!(meant("/p", "/p/x/").flatten().as_deref(), Some("x"));
        assert_eq!(meant("/p/src", ".."), Some(None), "the root is all of it");
        assert_eq!(meant("/p", "../q"), None);
        assert_eq!(meant("/p", "/etc/passwd"), None);
        assert_eq!(meant("/p", ".git/config"), None);
    }
}
