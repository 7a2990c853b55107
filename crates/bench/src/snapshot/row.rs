//! One operation: what both sides took, and what was to be reached.

use crate::table::{median, percentile};

/// The number of files the goals are meant for.
pub(crate) const GOAL_FILES: usize = 100_000;

/// What is to be reached at 100,000 files.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// The peer takes at least so many times as long.
    Faster(f64),
    /// Ours takes at most so many times as long as the peer.
    AtMost(f64),
    /// Ours takes at most so many milliseconds.
    Millis(f64),
    /// None was set.
    None,
}

/// An operation, measured.
pub(crate) struct Row {
    pub(crate) what: String,
    /// Milliseconds.
    pub(crate) ours: Vec<f64>,
    pub(crate) peer: Vec<f64>,
    /// True if the peer was stopped: it takes longer than that.
    pub(crate) stopped: bool,
    /// Processes the peer started for one operation.
    pub(crate) spawned: usize,
    pub(crate) goal: Goal,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, goal: Goal) -> Self {
        let (ours, peer) = (Vec::new(), Vec::new());
        Self { what: what.into(), ours, peer, stopped: false, spawned: 0, goal }
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
            Goal::Faster(times) if self.stopped && peer / ours < times => None,
            Goal::Faster(times) => Some(peer / ours >= times),
            Goal::AtMost(times) => Some(ours <= peer * times),
            Goal::Millis(most) => Some(ours <= most),
            Goal::None => None,
        }
    }

    /// The goal in words.
    pub(crate) fn goal(&self) -> String {
        match self.goal {
            Goal::Faster(times) => format!("≥ {times}×"),
            Goal::AtMost(times) => format!("≤ {times}× its time"),
            Goal::Millis(most) => format!("≤ {most} ms"),
            Goal::None => "–".to_owned(),
        }
    }

    /// The ratio in words: how many times as long the peer takes.
    pub(crate) fn ratio(&self) -> String {
        if self.peer.is_empty() {
            return "–".to_owned();
        }
        let ratio = self.peer_ms() / self.ours_ms();
        let sign = if self.stopped { "> " } else { "" };
        if ratio < 10.0 { format!("{sign}{ratio:.2}×") } else { format!("{sign}{ratio:.0}×") }
    }

    /// The row as a line of a table.
    pub(crate) fn line(&self, files: usize) -> String {
        let reached = match (self.is_reached(), files == GOAL_FILES) {
            (None, _) if self.stopped => "stopped too soon to tell",
            (None, _) => "–",
            (Some(true), true) => "yes",
            (Some(false), true) => "NO",
            (Some(true), false) => "(yes)",
            (Some(false), false) => "(no)",
        };
        let peer = match (self.peer.is_empty(), self.stopped) {
            (true, _) => "–".to_owned(),
            (false, true) => format!("stopped at {}", short(self.peer_ms())),
            (false, false) => short(self.peer_ms()),
        };
        format!(
            "| {} | {} | {peer} | {} | {} | {reached} | {} | {}/{} |",
            self.what,
            short(self.ours_ms()),
            self.ratio(),
            self.goal(),
            self.spawned,
            self.ours.len(),
            self.peer.len(),
        )
    }
}

/// Milliseconds with as many digits as mean something.
pub(crate) fn short(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}
