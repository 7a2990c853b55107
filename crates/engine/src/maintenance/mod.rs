//! Maintenance: recovery after a crash, garbage collection, finished deletions, watched roots, and forgetting files.

mod assembly;
pub(crate) mod deletion;
mod folder_entries;
pub(crate) mod forget;
pub(crate) mod recover;
pub(crate) mod scheduled_maintenance;

pub(crate) use assembly::assemble;
pub use scheduled_maintenance::Maintenance;
