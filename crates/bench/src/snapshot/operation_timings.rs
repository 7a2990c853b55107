//! One operation: what both sides took, and what was to be reached.

use crate::measurement::{median, percentile};

/// The number of files the goals are meant for.
pub(crate) const GOAL_FILES: usize = 100_000;

/// What is to be reached at 100,000 files.
#[derive(Clone, Copy)]
pub(crate) enum PerformanceGoal {
    /// The peer takes at least so many times as long.
    MinSpeedup(f64),
    /// Ours takes at most so many times as long as the peer.
    MaxSlowdown(f64),
    /// Ours takes at most so many milliseconds.
    MaxMillis(f64),
    /// None was set.
    None,
}

/// An operation, measured.
pub(crate) struct OperationTimings {
    pub(crate) operation: String,
    /// Milliseconds.
    pub(crate) ours: Vec<f64>,
    pub(crate) peer: Vec<f64>,
    /// True if the peer was stopped: it takes longer than that.
    pub(crate) peer_stopped: bool,
    /// Processes the peer started for one operation.
    pub(crate) peer_processes: usize,
    pub(crate) goal: PerformanceGoal,
}

impl OperationTimings {
    pub(crate) fn new(what: impl Into<String>, goal: PerformanceGoal) -> Self {
        let (ours, peer) = (Vec::new(), Vec::new());
        Self { operation: what.into(), ours, peer, peer_stopped: false, peer_processes: 0, goal }
    }

    pub(crate) fn ours_ms(&self) -> f64 {
        median(self.ours.clone())
    }

    /// What nine of ten of ours took at most.
    pub(crate) fn ours_p90(&self) -> f64 {
        percentile(self.ours.clone(), 0.9)
    }

    pub(crate) fn peer_ms(&self) -> f64 {
        median(self.peer.clone())
    }

    /// Tells whether the goal is reached; nothing if none was set, or if the peer was stopped too
    /// soon to tell.
    pub(crate) fn is_reached(&self) -> Option<bool> {
        let (ours, peer) = (self.ours_ms(), self.peer_ms());
        match self.goal {
            PerformanceGoal::MinSpeedup(times) if self.peer_stopped && peer / ours < times => None,
            PerformanceGoal::MinSpeedup(times) => Some(peer / ours >= times),
            PerformanceGoal::MaxSlowdown(times) => Some(ours <= peer * times),
            PerformanceGoal::MaxMillis(most) => Some(ours <= most),
            PerformanceGoal::None => None,
        }
    }

    /// The goal in words.
    pub(crate) fn goal_text(&self) -> String {
        match self.goal {
            PerformanceGoal::MinSpeedup(times) => format!("≥ {times}×"),
            PerformanceGoal::MaxSlowdown(times) => format!("≤ {times}× its time"),
            PerformanceGoal::MaxMillis(most) => format!("≤ {most} ms"),
            PerformanceGoal::None => "–".to_owned(),
        }
    }

    /// The ratio in words: how many times as long the peer takes.
    pub(crate) fn ratio_text(&self) -> String {
        if self.peer.is_empty() {
            return "–".to_owned();
        }
        let ratio = self.peer_ms() / self.ours_ms();
        let sign = if self.peer_stopped { "> " } else { "" };
        if ratio < 10.0 { format!("{sign}{ratio:.2}×") } else { format!("{sign}{ratio:.0}×") }
    }

    /// The row as a line of a table.
    pub(crate) fn table_row(&self, files: usize) -> String {
        let reached = match (self.is_reached(), files == GOAL_FILES) {
            (None, _) if self.peer_stopped => "stopped too soon to tell",
            (None, _) => "–",
            (Some(true), true) => "yes",
            (Some(false), true) => "NO",
            (Some(true), false) => "(yes)",
            (Some(false), false) => "(no)",
        };
        let peer = match (self.peer.is_empty(), self.peer_stopped) {
            (true, _) => "–".to_owned(),
            (false, true) => format!("stopped at {}", format_millis(self.peer_ms())),
            (false, false) => format_millis(self.peer_ms()),
        };
        format!(
            "| {} | {} | {peer} | {} | {} | {reached} | {} | {}/{} |",
            self.operation,
            format_millis(self.ours_ms()),
            self.ratio_text(),
            self.goal_text(),
            self.peer_processes,
            self.ours.len(),
            self.peer.len(),
        )
    }
}

/// Milliseconds with as many digits as mean something.
pub(crate) fn format_millis(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}
