//! The shadow repository and the worktree on disk: complete, honest, and as cheap as the change.
//!
//! Owns the git directory of a store under the data directory and all access to the user's worktree.
//! Knows no sessions, starts no program, follows no links, runs no filter, reads no configuration,
//! no environment and no clock.

mod audit;
mod cache;
mod capture;
mod chain;
mod coverage;
mod diff;
mod gc;
mod group;
mod hash;
mod ignore;
mod image;
mod journal;
mod loan;
mod object;
mod path;
mod picture;
mod restore;
mod selection;
mod shadow;
mod vcs;
mod walk;
mod watch;
mod worktree;

pub use audit::Audit;
pub use capture::{Capture, CaptureError, Captured, Mode};
pub use coverage::{Coverage, Permissions, Reason, Scope};
pub use diff::{Diff, DiffError, DiffOptions, FileDiff, Patch, Rename, Status};
pub use gc::{GcReport, Usage};
pub use group::Group;
pub use image::Image;
pub use journal::JournalStatus;
pub use loan::Settled;
pub use object::{Leaf, LeafMode, ObjectError, Oid, OidError};
pub use path::{PathError, RelPath};
pub use restore::{Conflict, Plan, Report, RestoreError, State, Step, Why, Wish};
pub use selection::Selection;
pub use shadow::{OpenError, Shadow};
pub use vcs::{UserGit, find_excludes_file};
pub use watch::JournalState;
pub use worktree::{RootError, RootPolicy, Worktree};
