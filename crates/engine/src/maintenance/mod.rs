//! Maintenance: recovery after a crash, garbage collection, baselines, and forgetting files.

mod assembly;
pub(crate) mod baseline;
pub(crate) mod forget;
pub(crate) mod recover;
pub(crate) mod upkeep;

pub(crate) use assembly::assemble;
pub use upkeep::Maintenance;
