//! Change sets: what one call of a tool did to files, by what evidence, and who else claims it.
//!
//! Owns the types and decisions of R1 to R5: images, evidence, three-way steps, contention.
//! Reads no file and merges no bytes.

mod change_set;
mod claim;
mod oid;
mod path_image;
mod three_way;

pub use change_set::{ChangeRoot, ChangeSet, Evidence, FileChange, GitMove, GitPosition};
pub use claim::{ChangeClaim, find_contended, find_own_paths};
pub use oid::{Oid, OidError};
pub use path_image::{FileMode, PathImage, TreeLeaf, UncoveredReason};
pub use three_way::{StepDirection, ThreeWayStep, three_way_steps};
