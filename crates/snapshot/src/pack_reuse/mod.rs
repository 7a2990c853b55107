//! Pack reuse: files that the user's index proves unchanged are not read, and the user's packs are borrowed (R10).
//!
//! A first capture of a committed checkout would read and compress every file though the user's
//! repository has most of them. Files that its index proves unchanged are taken from there. The packs
//! that hold them get a second name in our store (a hard link, marked as borrowed), so nothing the user does
//! to the repository takes them away. Packs of its alternates (`clone --shared`) are linked in the same way;
//! nothing is ever written there, and our store has no alternates.
//! A file that is in no pack worth borrowing is read: that is no slower than copying a loose object.
//!
//! A borrowed object is not trusted: as long as a pack is borrowed, every object
//! read is compared with its name, and again before it is copied.

mod pack_linking;
mod pack_release;
mod reusable_files;
mod reuse_conditions;
mod stat_proof;

pub use pack_release::PackReleaseReport;
pub(crate) use reusable_files::{ReuseContext, split_reusable};
