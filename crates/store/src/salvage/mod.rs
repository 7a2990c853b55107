//! Salvage: copies what can be read of a damaged store into a new one, and says what is lost.
//!
//! The damaged files are copied first and kept; the originals are only read. From the copy, the
//! tables that cannot be rebuilt are read in ranges of row numbers, halved around pages that
//! cannot be read, and every row is proved by its check sum or hash before it is taken. What is
//! missing in a stream becomes a stub, and the projections are made from the salvaged log alone, so
//! the new store is itself sound. Stubs have no sum; they are taken if they fit between their
//! neighbours. A session is called complete only if nothing of it is missing.

mod damaged_copy;
mod log_tables;
mod range_reader;
mod repair;
mod report;
mod salvage_run;
mod session_streams;
mod side_tables;
mod streamed_text;

pub use report::{DamagedSession, SalvageReport, TableSalvageCounts};
use salvage_run::SalvageRun;
pub use salvage_run::salvage;
