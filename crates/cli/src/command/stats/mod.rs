//! `turnstone stats`: totals over sessions.

mod session_stats;
mod stats_report;

pub(crate) use stats_report::{StatsArgs, run};
