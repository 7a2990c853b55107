//! `turnstone stats`: what the sessions add up to.

mod census;
mod report;

pub(crate) use report::{StatsArgs, run};
