//! Whether a command still does something, as the system counts it.
//!
//! A git that opened a pipe waits for a writer: it uses no processor and reads nothing. What the system
//! does not tell counts as progress; the time limit of the command remains.

use std::time::Duration;

use crate::deadline::Deadline;
use crate::proc_stat::ProcessStat;

/// What the processes of a group have used so far.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessGroupUsage(Vec<(ProcessStat, Vec<u8>)>);

impl ProcessGroupUsage {
    /// `None` if the system does not tell, or one of them is at work right now.
    fn of_idle(group: i32) -> Option<Self> {
        let all = ProcessStat::list().ok()?;
        let members = all.into_iter().filter(|stat| stat.pgrp == group && stat.is_alive());
        let usage = members.map(|stat| {
            // Sleeping, not running and not waiting for a disk.
            let is_idle = matches!(stat.state, b'S' | b'T' | b't');
            let counters = fs_err::read(format!("/proc/{}/io", stat.pid)).ok()?;
            is_idle.then_some((stat, counters))
        });
        usage.collect::<Option<Vec<_>>>().map(Self)
    }
}

/// Notices a process group that has done nothing for some time.
#[derive(Debug)]
pub(super) struct ProgressWatch {
    group: i32,
    limit: Duration,
    last: Option<ProcessGroupUsage>,
    stalled_at: Deadline,
}

impl ProgressWatch {
    pub(super) fn new(group: i32, limit: Duration) -> Self {
        Self { group, limit, last: None, stalled_at: Deadline::after(limit) }
    }

    /// When to look the next time.
    pub(super) fn next_look(&self) -> Deadline {
        Deadline::after(self.limit / 10)
    }

    /// It wrote something.
    pub(super) fn record_progress(&mut self) {
        self.last = None;
        self.stalled_at = Deadline::after(self.limit);
    }

    /// Checks the group; true if it has done nothing for longer than the limit.
    pub(super) fn has_stalled(&mut self) -> bool {
        let now = ProcessGroupUsage::of_idle(self.group);
        if now.is_some() && now == self.last {
            return self.stalled_at.is_over();
        }
        self.last = now;
        self.stalled_at = Deadline::after(self.limit);
        false
    }
}
