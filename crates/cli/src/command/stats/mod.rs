//! `turnstone stats`: what the sessions add up to.

mod session_stats;
mod stats_report;

pub(crate) use stats_report::{StatsArgs, run};
