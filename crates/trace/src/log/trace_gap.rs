//! Why a trace may have missed something.

use std::fmt;
use std::path::PathBuf;

/// A reason why something may have been missed, and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceGap {
    /// What happened.
    pub reason: TraceGapReason,
    /// The path in question, if it is known.
    pub path: Option<PathBuf>,
    /// How often.
    pub count: u64,
}

/// What a tracer could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TraceGapReason {
    /// The memory of a process could not be read, so the path of a call is not known.
    UnreadableMemory,
    /// A path could not be resolved as the process sees it.
    UnresolvedPath,
    /// A file was opened by its handle instead of its name.
    OpenedByHandle,
    /// A path lies on a file system that is mounted only inside of the tree and stores its files in
    /// another one (an overlay, FUSE).
    NestedFileSystem,
    /// A descriptor that the command inherited could not be named.
    InheritedDescriptor,
    /// A call of another architecture that the tracer does not know.
    OtherArchitecture,
    /// A program started that would have more rights untraced. It hides nothing.
    SetUidProgram,
    /// Both processes that answer for the tree died; from then on its calls failed.
    HoldersLost,
    /// The log could not be written, or reached its limit.
    LogIncomplete,
}

impl TraceGapReason {
    /// Every reason, in the order of their codes.
    pub const ALL: [Self; 9] = [
        Self::UnreadableMemory,
        Self::UnresolvedPath,
        Self::OpenedByHandle,
        Self::NestedFileSystem,
        Self::InheritedDescriptor,
        Self::OtherArchitecture,
        Self::SetUidProgram,
        Self::HoldersLost,
        Self::LogIncomplete,
    ];

    /// True if a change of the tree may be missing from the log because of it.
    pub fn can_hide_a_change(self) -> bool {
        self != Self::SetUidProgram
    }
}

impl fmt::Display for TraceGapReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::UnreadableMemory => "the memory of a process could not be read",
            Self::UnresolvedPath => "a path could not be resolved",
            Self::OpenedByHandle => "a file was opened by its handle",
            Self::NestedFileSystem => "a file system was mounted inside of the command",
            Self::InheritedDescriptor => "an inherited file could not be named",
            Self::OtherArchitecture => "a program of another architecture ran",
            Self::SetUidProgram => "a set-uid program ran without its rights",
            Self::HoldersLost => "the tracing processes were killed",
            Self::LogIncomplete => "the trace could not be written to disk",
        })
    }
}
