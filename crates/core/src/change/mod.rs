//! Change sets: what one call of a tool did to files, by what evidence, and who else claims it.
//!
//! Owns the words and the decisions of R1 to R5: images, evidence, links of a range, contention.
//! Reads no file and merges no bytes.

mod claim;
mod link;
mod set;

pub use claim::{Claim, find_contended, own_paths};
pub use link::{Direction, Link, links};
pub use set::{ChangeSet, Evidence, FileChange, FileImage, FileMode, GitMove, GitPoint, Root};
