//! Maintenance: recovery after a crash, garbage collection, baselines, and forgetting files.

pub(crate) mod baseline;
pub(crate) mod forget;
pub(crate) mod recover;
pub(crate) mod upkeep;
