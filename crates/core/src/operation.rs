//! Operations: changes to the history of a session, and the resulting head.
//!
//! An operation is planned, then applied; if its process dies in between, recovery finishes it. A
//! session has one head (R19): the position from which on everything is undone, or none if nothing
//! is.

use serde::{Deserialize, Serialize};

use crate::id::{ChangeId, MessageId, PartId};
use crate::rel_path::RelPath;

/// What kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// Changes were undone.
    Undo,
    /// Changes were redone.
    Redo,
    /// The session went to another point.
    Jump,
    /// A prompt came while the head was before the end: what was behind it is hidden.
    Branch,
    /// A point got a name.
    Checkpoint,
    /// What an undo needs was given up for space.
    Expire,
    /// Content was removed for good.
    Forget,
}

impl OperationKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Undo,
        Self::Redo,
        Self::Jump,
        Self::Branch,
        Self::Checkpoint,
        Self::Expire,
        Self::Forget,
    ];

    /// The word the database and people use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
            Self::Jump => "jump",
            Self::Branch => "branch",
            Self::Checkpoint => "checkpoint",
            Self::Expire => "expire",
            Self::Forget => "forget",
        }
    }

    /// True for kinds that run in the background while the session may be busy: they move no head and
    /// change no file of the user.
    #[must_use]
    pub const fn is_background(self) -> bool {
        matches!(self, Self::Expire | Self::Forget)
    }

    /// Parses the stored form.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The first undone message, or the first undone part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionHead {
    /// The message.
    pub message: MessageId,
    /// The part; none: the whole message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartId>,
}

/// How much of a change set is undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoExtent {
    /// Nothing.
    Nothing,
    /// All of it.
    All,
    /// These paths.
    Paths(Vec<RelPath>),
}

impl UndoExtent {
    /// True if this path of the change set is undone.
    #[must_use]
    pub fn contains_path(&self, path: &RelPath) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Paths(paths) => paths.contains(path),
        }
    }
}

/// How much of one change set is undone after an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneChangeSet {
    /// The change set.
    pub change: ChangeId,
    /// How much of it.
    pub extent: UndoExtent,
}

/// How an operation moves the head of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadTarget {
    /// The head does not move.
    Stay,
    /// To the end of the session.
    Tip,
    /// Before this message or part.
    To(SessionHead),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_kinds_round_trip_by_name() {
        for kind in OperationKind::ALL {
            assert_eq!(OperationKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(OperationKind::parse("nothing"), None);
    }
}
