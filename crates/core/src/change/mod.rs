//! Change sets: what one call of a tool did to files, by what evidence, and who else claims it.
//!
//! Owns the types and decisions of R1 to R5: images, evidence, three-way steps, contention.
//! Reads no file and merges no bytes.

mod attribution;
mod change_set;
mod claim;
mod oid;
mod path_image;
mod path_touch;
mod permission_bits;
mod three_way;
mod touch_history;
mod trace_report;

pub use attribution::{Attribution, attribute_changes};
pub use change_set::{ChangeRoot, ChangeSet, Evidence, FileChange, GitMove, GitPosition};
pub use claim::{ChangeClaim, find_contended, find_own_paths};
pub use oid::{Oid, OidError};
pub use path_image::{FileMode, PathImage, TreeLeaf, UncoveredReason};
pub use path_touch::{PathTouch, PriorFile, TouchEffect};
pub use permission_bits::merge_permission_bits;
pub use three_way::{StepDirection, ThreeWayStep, three_way_steps};
pub use trace_report::{BoundedPaths, TraceReport};
