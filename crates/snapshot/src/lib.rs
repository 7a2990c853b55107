//! The shadow repository and the worktree on disk: complete, honest, and as cheap as the change.
//!
//! Owns the git directory of a store under the data directory and all access to the user's worktree.
//! Knows no sessions, starts no program, follows no links, runs no filter, reads no configuration,
//! no environment and no clock.

mod audit;
mod bounded_file;
mod budget;
mod cache;
mod capture;
mod chain;
mod coverage;
mod diff;
mod expire;
mod forget;
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
mod point;
mod reach;
mod registry;
mod removal;
mod restore;
mod selection;
mod shadow;
mod upkeep;
mod usage;
mod vault;
mod vcs;
mod walk;
mod watch;
mod worktree;

pub use audit::Audit;
pub use bounded_file::{open_regular_file, read_bounded_file};
pub use budget::{Budget, Floor, Limit, OverBudget, Relief, Room};
pub use capture::{Capture, CaptureError, Captured, Mode};
pub use coverage::{Coverage, Permissions, Reason, Scope};
pub use diff::{
    Diff, DiffError, DiffOptions, FileDiff, Patch, Rename, Status, UntrackedFiles, UntrackedPatch,
};
pub use expire::{ExpireError, Expired, Expiry};
pub use forget::{Forgettable, Tombstones, Version, names_path};
pub use gc::{Collection, GcReport, Kept, WhyKept};
pub use group::Group;
pub use image::Image;
pub use journal::JournalStatus;
pub use loan::Settled;
pub use object::{Leaf, LeafMode, ObjectError, Oid, OidError};
pub use path::{PathError, RelPath};
pub use point::git_point;
pub use registry::{Link, ListedStore, Place, Registry, RegistryError, RootFacts, StoreId};
pub use removal::{RemovalError, remove_store, sweep_stores};
pub use restore::{
    Action, Conflict, FileWrite, Operation, OperationId, OperationIdError, Order, Plan, Report,
    RestoreError, Seen, State, Step, Why, Wish, WishLink,
};
pub use selection::Selection;
pub use shadow::{OpenError, Shadow};
pub use upkeep::{Cadence, Merged};
pub use usage::{DiskUse, GroupUse, PathUse, Usage};
pub use vault::{
    Damage, Failure, FailureKind, ListedCapture, ListedFile, Need, PathChange, Sweep, Swept, Vault,
    VaultError, VaultOptions, Verified,
};
pub use vcs::{
    RepositoryError, RepositoryLocation, SafeDirectories, UserGit, discover_repository,
    find_excludes_file,
};
pub use watch::JournalState;
pub use worktree::{RootError, RootPolicy, Worktree, set_worktree_mask};
