//! What the trace of a command tells besides its own changes.

use serde::{Deserialize, Serialize};

use crate::rel_path::RelPath;

/// So many paths of a list are stored; of the others, the number.
const MAX_LISTED_PATHS: usize = 1_000;

/// Paths of a root, of which a long list keeps only the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundedPaths {
    /// The first paths, sorted.
    pub paths: Vec<RelPath>,
    /// How many more there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

impl BoundedPaths {
    /// Keeps the first of sorted paths, and counts the others.
    #[must_use]
    pub fn new(mut paths: Vec<RelPath>) -> Self {
        let more = paths.len().saturating_sub(MAX_LISTED_PATHS) as u64;
        paths.truncate(MAX_LISTED_PATHS);
        Self { paths, more }
    }

    /// How many paths there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.paths.len() as u64 + self.more
    }

    /// True if there was none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.more == 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What the trace of a command tells besides its own changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReport {
    /// Paths that only others changed while the command ran: no undo of it touches them.
    #[serde(default, skip_serializing_if = "BoundedPaths::is_empty")]
    pub others: BoundedPaths,
    /// Paths that both the command and others changed, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<RelPath>,
    /// Paths that no capture covers, and at or below which the command wrote.
    #[serde(default, skip_serializing_if = "BoundedPaths::is_empty")]
    pub uncovered: BoundedPaths,
    /// Files that processes of the command still had open for writing at its end: what they write later is not
    /// recorded.
    #[serde(default, skip_serializing_if = "BoundedPaths::is_empty")]
    pub still_open: BoundedPaths,
    /// Programs that ran without the rights they usually have, because a traced process gains none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restricted_programs: Vec<String>,
    /// Processes of the command that went on after it, by name and number. What they write then is in a change set of
    /// its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<String>,
    /// Why the changes could not be attributed, if they could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untraced: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_keep_their_beginning_and_their_length() {
        let paths = |count: usize| (0..count).map(|n| format!("{n:05}").parse().expect("a path"));
        let long = BoundedPaths::new(paths(MAX_LISTED_PATHS + 7).collect());

        assert_eq!((long.paths.len(), long.more), (MAX_LISTED_PATHS, 7));
        assert_eq!(long.count(), 1_007);
        assert_eq!(BoundedPaths::new(paths(2).collect()).count(), 2);
        assert!(BoundedPaths::default().is_empty());
    }

    /// Rows of earlier versions have none of the fields.
    #[test]
    fn report_without_fields_is_an_empty_report() {
        let report: TraceReport = serde_json::from_str("{}").expect("a report");
        assert_eq!(report, TraceReport::default());
        assert_eq!(serde_json::to_string(&report).expect("text"), "{}");
    }
}
