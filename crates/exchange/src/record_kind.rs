//! The kinds of things an import finds.

use serde::Serialize;

/// The kinds of things a report counts, in the order they are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RecordKind {
    /// Projects.
    #[serde(rename = "project")]
    Project,
    /// Rules approved for a project.
    #[serde(rename = "permission")]
    Permission,
    /// Sessions.
    #[serde(rename = "session")]
    Session,
    /// Messages.
    #[serde(rename = "message")]
    Message,
    /// Parts of messages.
    #[serde(rename = "part")]
    Part,
    /// Entries of to-do lists.
    #[serde(rename = "todo")]
    Todo,
    /// Shares, with their secrets.
    #[serde(rename = "share")]
    Share,
    /// Stored diffs of sessions.
    #[serde(rename = "session diff")]
    Diff,
    /// Messages and prompts of OpenCode's experimental second runner.
    #[serde(rename = "v2 message")]
    V2Message,
}

impl RecordKind {
    /// Every kind, in the order of a report.
    pub const ALL: &'static [Self] = &[
        Self::Project,
        Self::Permission,
        Self::Session,
        Self::Message,
        Self::Part,
        Self::Todo,
        Self::Share,
        Self::Diff,
        Self::V2Message,
    ];

    /// The word people read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Permission => "permission",
            Self::Session => "session",
            Self::Message => "message",
            Self::Part => "part",
            Self::Todo => "todo",
            Self::Share => "share",
            Self::Diff => "session diff",
            Self::V2Message => "v2 message",
        }
    }
}

impl std::fmt::Display for RecordKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
