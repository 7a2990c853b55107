//! The worktree index: what the last capture of the whole worktree saw, folder by folder, in memory.
//!
//! It makes a capture cost what changed: an unchanged folder keeps its tree, and coverage that did
//! not change keeps its commit. It owns no file but the stat cache, and it proves nothing by itself:
//! a walk or the journal names the paths to check.

mod index_coverage;
mod index_folder;
mod index_totals;
mod index_trees;
mod scan_update;

pub(crate) use index_folder::{
    FolderRules, IndexEntry, IndexFolder, WorktreeIndex, join_name, split_parent,
};
pub(crate) use scan_update::ScanUpdateReport;
