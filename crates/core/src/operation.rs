//! Operations: what was done to the history of a session, and where the session stands since.
//!
//! An operation is planned, then done; a planned one that its process did not live to finish is
//! finished by the next. A session has one head (R19): the place from which on everything is taken
//! back, or none, when it stands at its end.

use serde::{Deserialize, Serialize};

use crate::id::{ChangeId, MessageId, PartId};
use crate::rel_path::RelPath;

/// What kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// Changes were taken back.
    Undo,
    /// Changes were brought back.
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

    /// True for what is done beside the session, whatever it is doing: it moves no head, touches
    /// no file of a person, and nobody waits for it.
    #[must_use]
    pub const fn is_background(self) -> bool {
        matches!(self, Self::Expire | Self::Forget)
    }

    /// The kind with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The first message, or the first part of it, that is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionHead {
    /// The message.
    pub message: MessageId,
    /// The part; none: the whole message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartId>,
}

/// How much of a change set is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoExtent {
    /// Nothing: it stands.
    Nothing,
    /// All of it.
    All,
    /// These paths.
    Paths(Vec<RelPath>),
}

impl UndoExtent {
    /// True if this path of the change set is taken back.
    #[must_use]
    pub fn contains_path(&self, path: &RelPath) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Paths(paths) => paths.contains(path),
        }
    }
}

/// How much of one change set is taken back after an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneChangeSet {
    /// The change set.
    pub change: ChangeId,
    /// How much of it.
    pub extent: UndoExtent,
}

/// Where a session stands after an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadMove {
    /// Where it stood before.
    Stay,
    /// At its end.
    Tip,
    /// Before this.
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
