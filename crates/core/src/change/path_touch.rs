//! Touches: what a traced command did to paths of one root, in the order in which it happened.

use crate::model::FileIdentity;
use crate::rel_path::RelPath;

/// One act of a traced command on a path of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTouch {
    /// Where, by the names of that moment.
    pub path: RelPath,
    /// What it did.
    pub effect: TouchEffect,
    /// What was there just before; `None` if there was nothing.
    pub prior: Option<PriorFile>,
}

/// What a touch did to its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TouchEffect {
    /// It was opened for writing, truncated, created or linked.
    Written,
    /// It was removed.
    Removed,
    /// It got another mode or owner.
    MetadataSet,
    /// Something was touched below it, at a path that no capture can name, such as one in a `.git`.
    TouchedBelow,
    /// It was moved away, with everything below it.
    MovedAway,
    /// Something was moved here, with everything below it.
    MovedHere {
        /// Its former path; `None` if that is outside of the root.
        from: Option<RelPath>,
    },
    /// It changed places with another path, with everything below both.
    Exchanged {
        /// The other path; `None` if that is outside of the root.
        with: Option<RelPath>,
    },
}

/// A file or directory as it was before a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorFile {
    /// What identifies it.
    pub identity: FileIdentity,
    /// True for a directory.
    pub is_directory: bool,
    /// When it was last changed in any way (its `ctime`), in nanoseconds.
    pub changed_nanos: i64,
}
