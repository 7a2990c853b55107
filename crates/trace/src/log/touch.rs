//! One path that the traced tree touched.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

/// One change that a process of the tree asked for, recorded before the kernel carried it out.
///
/// The call may still have failed afterwards: a touch says who may have changed a path, and the two
/// captures around the command say whether it changed. Calls that could not change anything (removing
/// what is absent, creating what exists) are not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Touch {
    /// What the process did.
    pub kind: TouchKind,
    /// The path: absolute, without links, as this process saw it at that moment. A final symbolic link
    /// was followed exactly if the call followed it.
    pub path: PathBuf,
    /// The directory that holds the last component of `path`; all zero if it did not exist yet, because
    /// another thread was about to create it.
    pub parent: TouchParent,
    /// What was there before; `None` if nothing was.
    pub target: Option<TouchTarget>,
    /// The order of the touches: larger is later. Gaps mean repetitions.
    pub sequence: u64,
    /// When, in nanoseconds since 1970.
    pub time: i64,
}

impl Touch {
    /// Tells repetitions: touches with the same key say the same. `None` if each one counts, as the
    /// order of moved directories does.
    pub(crate) fn repetition_key(&self) -> Option<u64> {
        let is_move = matches!(
            self.kind,
            TouchKind::MoveFrom { .. } | TouchKind::MoveTo { .. } | TouchKind::Exchange { .. }
        );
        if is_move && self.target.is_none_or(|target| target.is_directory) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (&self.kind, &self.path, &self.parent).hash(&mut hasher);
        Some(hasher.finish())
    }
}

/// What a process did to a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TouchKind {
    /// It opened a file that existed for writing.
    OpenForWrite,
    /// It created a file.
    Create,
    /// It cut a file that existed, on opening it or by `truncate`.
    Truncate,
    /// It removed a file or a link.
    Remove,
    /// It removed a directory.
    RemoveDirectory,
    /// It created a directory.
    CreateDirectory,
    /// It moved what was here to another path.
    MoveFrom {
        /// The new path.
        to: PathBuf,
    },
    /// It moved something here; what was here before is replaced.
    MoveTo {
        /// The old path.
        from: PathBuf,
    },
    /// It exchanged this path with another one. Both have such a record.
    Exchange {
        /// The other path.
        with: PathBuf,
    },
    /// It gave an existing file this name, too.
    Link,
    /// It created a symbolic link.
    Symlink,
    /// It changed the permission bits.
    Mode,
    /// It changed the owner or the group.
    Owner,
    /// It created a device, a pipe or a socket.
    Node,
}

/// What a file system identifies a directory by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TouchParent {
    /// The device it is on, as `st_dev` has it.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// When it was created, in nanoseconds since 1970; `None` if the file system does not record it.
    pub born: Option<i64>,
}

/// What was at a path just before it was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TouchTarget {
    /// The device it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// When it was created, in nanoseconds since 1970, if that is known.
    pub born: Option<i64>,
    /// How many names the file has. With more than one, the touch also changes the other names.
    pub links: u32,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Its length in bytes.
    pub size: u64,
    /// When its content was last changed, in nanoseconds since 1970.
    pub modified: i64,
    /// When its inode was last changed, in nanoseconds since 1970. No program can set it back.
    pub changed: i64,
}
