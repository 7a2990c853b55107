//! Images, evidence and change sets.

use serde::{Deserialize, Serialize};

use super::{PathImage, TraceReport};
use crate::id::{ChangeId, PartId, SessionId, TurnId};
use crate::rel_path::RelPath;

/// How a change came to be known (R2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The tool declared the path before it wrote; the bytes were compared.
    Named,
    /// Seen between the two captures of a call that did not name it.
    Window,
    /// As `window`, and a process of the call was seen touching the path.
    Traced,
    /// As `window`, but the window was closed after a crash.
    Recovered,
    /// Read from the snapshots of the program that ran the turn.
    Imported,
}

impl Evidence {
    /// True if each path is known to be the call's: it named the path, or was seen touching it.
    #[must_use]
    pub const fn is_certain(self) -> bool {
        match self {
            Self::Named | Self::Traced => true,
            Self::Window | Self::Recovered | Self::Imported => false,
        }
    }

    /// The one of two that says less about whose a change is.
    #[must_use]
    pub fn least_certain(self, other: Self) -> Self {
        let certainty = |evidence| match evidence {
            Self::Recovered => 0,
            Self::Imported => 1,
            Self::Window => 2,
            Self::Traced => 3,
            Self::Named => 4,
        };
        if certainty(other) < certainty(self) { other } else { self }
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Window => "window",
            Self::Traced => "traced",
            Self::Recovered => "recovered",
            Self::Imported => "imported",
        }
    }
}

/// One path a call changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Where, below the root.
    pub path: RelPath,
    /// What it held before the call.
    pub before: PathImage,
    /// What it held after the call.
    pub after: PathImage,
}

impl FileChange {
    /// True if a directory was created, removed, or given other permission bits, and no file or link is
    /// involved. Lists of files leave such a change out.
    #[must_use]
    pub const fn is_directory_only(&self) -> bool {
        self.before.has_no_file() && self.after.has_no_file()
    }

    /// True if both sides are known: only then it can be undone (R1).
    #[must_use]
    pub const fn is_covered(&self) -> bool {
        self.before.is_covered() && self.after.is_covered()
    }
}

/// A directory whose files a change set is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChangeRoot {
    /// The store of its captures.
    pub store: String,
    /// Its real path at the time.
    pub path: String,
}

/// Position of the user's repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitPosition {
    /// The commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The check sum at the end of the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// True if the position could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

impl GitPosition {
    /// A repository of which nothing could be read.
    #[must_use]
    pub fn unknown() -> Self {
        Self { unknown: true, ..Self::default() }
    }

    /// True if commit and branch are known and equal in both.
    #[must_use]
    pub fn is_same_position(&self, other: &Self) -> bool {
        let is_known = !self.unknown && !other.unknown;
        is_known && (&self.head, &self.branch) == (&other.head, &other.branch)
    }
}

/// Position of the user's repository before and after a call (R5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitMove {
    /// Before the call.
    pub before: GitPosition,
    /// After the call.
    pub after: GitPosition,
}

/// What one call did to the files of one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// Names the change set; a copied turn keeps it (R40).
    pub id: ChangeId,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The call.
    pub part: Option<PartId>,
    /// Directory whose files it is about.
    pub root: ChangeRoot,
    /// Evidence.
    pub evidence: Evidence,
    /// The window this one was opened in: a child session's, a nested command's.
    pub outer: Option<ChangeId>,
    /// What changed, sorted by path.
    pub changes: Vec<FileChange>,
    /// Position of the user's repository.
    pub git: Option<GitMove>,
    /// What a trace of the call tells besides; nothing if none was asked for.
    pub trace: Option<TraceReport>,
}
