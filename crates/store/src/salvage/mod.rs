//! Salvage: copies what can be read of a damaged store into a new one, and says what is lost.
//!
//! The damaged files are copied first and kept; the originals are only read. From the copy, the
//! tables that cannot be made anew are read in ranges of row numbers, halved around pages that
//! cannot be read, and every row is proved by its check sum or hash before it is taken. What is
//! missing in a stream becomes a stub, and the projections are made from the salvaged log alone, so
//! the new store is itself sound. Stubs have no sum; they are taken if they fit between their
//! neighbours. A session is called complete only if nothing of it is missing.

mod companion;
mod event;
mod mend;
mod outcome;
mod range;
mod source;
mod stream;
mod text;
mod work;

pub use outcome::{DamagedSession, Salvaged, Tally};
use work::Work;
pub use work::salvage;
