//! The loan: what the user's index proves is not read, and the objects are the user's for a while (R10).
//!
//! A first capture of a committed checkout would read and compress every file though the user's
//! repository has most of them. Files that its index proves unchanged are taken from there. The packs
//! that hold them get a second name in our store (a hard link, marked as lent), so nothing the user does
//! to his repository takes them away; nothing is ever written there, and there are no alternates.
//! Everything that is not in a pack worth lending is read: no slower than to copy a loose object.
//!
//! A lent object is believed when it is looked at, not before: as long as there is a loan every object
//! read is compared with its name, and what the store settles into is compared before it is kept.

mod pack_linking;
mod pack_release;
mod reusable_files;
mod reuse_conditions;
mod stat_proof;

pub use pack_release::PackReleaseReport;
pub(crate) use reusable_files::ReuseContext;
