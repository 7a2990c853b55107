//! What one search may use, and why it stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::http::{HeaderName, HeaderValue};

/// The header that says why an answer is not complete.
const HEADER: HeaderName = HeaderName::from_static("x-turnstone-truncated");

/// Why something that matches may be missing in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchTruncation {
    /// More matched than is returned.
    Results,
    /// More matches in one line than are returned.
    Submatches,
    /// There are more files and directories than are visited.
    Entries,
    /// The files hold more than is read.
    Bytes,
    /// Matching took more work than is allowed.
    Work,
    /// The search took longer than is allowed.
    Time,
    /// A line is longer than what is matched at once: a longer match may be missed or cut.
    LongLine,
    /// A file is larger than what is searched.
    LargeFile,
    /// Ignore rules are too many, too large or unreadable: what they hide may be in the answer.
    IgnoreRules,
}

impl SearchTruncation {
    /// The name clients see.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Results => "results",
            Self::Submatches => "submatches",
            Self::Entries => "entries",
            Self::Bytes => "bytes",
            Self::Work => "work",
            Self::Time => "time",
            Self::LongLine => "long-line",
            Self::LargeFile => "large-file",
            Self::IgnoreRules => "ignore-rules",
        }
    }

    /// The header that reports all of them; none if the answer is complete.
    pub(crate) fn header(all: &[Self]) -> Option<(HeaderName, HeaderValue)> {
        let names: Vec<&str> = all.iter().map(|one| one.name()).collect();
        let value = HeaderValue::from_str(&names.join(", ")).ok()?;
        (!all.is_empty()).then_some((HEADER, value))
    }
}

/// Stops a search from outside.
#[derive(Debug, Default)]
pub(crate) struct SearchControl(AtomicU8);

const RUNNING: u8 = 0;
const TIMED_OUT: u8 = 1;
const CANCELLED: u8 = 2;

impl SearchControl {
    /// The client went away: no answer is needed.
    pub(super) fn cancel(&self) {
        self.0.store(CANCELLED, Ordering::Relaxed);
    }

    /// The time is up: what was found so far is the answer.
    pub(super) fn time_out(&self) {
        self.0.store(TIMED_OUT, Ordering::Relaxed);
    }
}

/// How much one search may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchLimits {
    /// Files and directories that are visited.
    pub(super) entries: u64,
    /// Bytes that are read.
    pub(super) bytes: u64,
    /// Bytes that are given to the regular expression, each time they are.
    pub(super) work: u64,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { entries: 100_000, bytes: 512 << 20, work: 1 << 30 }
    }
}

/// What one search has left.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    control: Arc<SearchControl>,
    left: SearchLimits,
    truncations: Vec<SearchTruncation>,
}

impl SearchBudget {
    pub(super) fn new(control: Arc<SearchControl>, limits: SearchLimits) -> Self {
        Self { control, left: limits, truncations: Vec::new() }
    }

    /// Counts a visited entry; false if the search must end.
    pub(super) fn spend_entry(&mut self) -> bool {
        self.spend(|left| &mut left.entries, 1, SearchTruncation::Entries)
    }

    /// Counts bytes that were read; false if the search must end.
    pub(super) fn spend_bytes(&mut self, count: usize) -> bool {
        self.spend(|left| &mut left.bytes, count, SearchTruncation::Bytes)
    }

    /// Counts bytes that are about to be matched; false if the search must end.
    pub(super) fn spend_work(&mut self, count: usize) -> bool {
        self.spend(|left| &mut left.work, count, SearchTruncation::Work)
    }

    fn spend(
        &mut self,
        field: impl Fn(&mut SearchLimits) -> &mut u64,
        count: usize,
        why: SearchTruncation,
    ) -> bool {
        if !self.is_running() {
            return false;
        }
        let left = field(&mut self.left);
        match left.checked_sub(count as u64) {
            Some(rest) => *left = rest,
            None => {
                *left = 0;
                self.truncate(why);
                return false;
            }
        }
        true
    }

    fn is_running(&mut self) -> bool {
        match self.control.0.load(Ordering::Relaxed) {
            RUNNING => true,
            TIMED_OUT => {
                self.truncate(SearchTruncation::Time);
                false
            }
            _ => false,
        }
    }

    /// Notes that something may be missing, and why.
    pub(super) fn truncate(&mut self, why: SearchTruncation) {
        if !self.truncations.contains(&why) {
            self.truncations.push(why);
        }
    }

    /// Why the answer is not complete; empty if it is.
    pub(super) fn into_truncations(self) -> Vec<SearchTruncation> {
        self.truncations
    }

    #[cfg(test)]
    pub(super) fn work_left(&self) -> u64 {
        self.left.work
    }
}
