//! Directories that are captured in a store of their own and lie in another captured directory: the same file has a
//! path in each of them.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use turnstone_core::rel_path::RelPath;

/// Where a root lies, seen from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RootOverlap {
    /// Both are the same directory.
    Same,
    /// It lies inside, at this path.
    Inside(RelPath),
    /// The other one lies inside of it, at this path.
    Around(RelPath),
}

impl RootOverlap {
    /// Where `other` lies, seen from `root`; `None` if they share no file.
    pub(crate) fn find(root: &Path, other: &Path) -> Option<Self> {
        let below = |above: &Path, path: &Path| {
            RelPath::new(path.strip_prefix(above).ok()?.as_os_str().as_bytes()).ok()
        };
        match root == other {
            true => Some(Self::Same),
            false => below(root, other)
                .map(Self::Inside)
                .or_else(|| below(other, root).map(Self::Around)),
        }
    }

    /// The path in the one root of a path in the other; `None` if that lies elsewhere.
    pub(crate) fn translate(&self, path: &RelPath) -> Option<RelPath> {
        match self {
            Self::Same => Some(path.clone()),
            Self::Inside(folder) => {
                RelPath::new([folder.as_bytes(), b"/", path.as_bytes()].concat()).ok()
            }
            Self::Around(folder) => {
                let rest = path.as_bytes().strip_prefix(folder.as_bytes())?.strip_prefix(b"/")?;
                RelPath::new(rest).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(root: &str, other: &str, path: &str) -> Option<String> {
        let overlap = RootOverlap::find(Path::new(root), Path::new(other))?;
        Some(overlap.translate(&path.parse().expect("a path"))?.to_string())
    }

    #[test]
    fn paths_are_named_from_the_other_root() {
        assert_eq!(translate("/p", "/p/a/b", "f").as_deref(), Some("a/b/f"));
        assert_eq!(translate("/p/a/b", "/p", "a/b/c/f").as_deref(), Some("c/f"));
        assert_eq!(translate("/p", "/p", "a").as_deref(), Some("a"));
    }

    #[test]
    fn paths_outside_of_the_other_root_have_no_name_there() {
        assert_eq!(translate("/p/a/b", "/p", "a/f"), None);
        assert_eq!(translate("/p/a", "/p", "ab/f"), None);
        assert_eq!(translate("/p/a", "/p", "a"), None);
        assert_eq!(translate("/p", "/pq", "f"), None);
        assert_eq!(translate("/p/a", "/p/b", "f"), None);
    }
}
