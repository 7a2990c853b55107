//! The shadow repository and the worktree on disk: complete, honest, and as cheap as the change.
//!
//! Owns the git directory of a store under the data directory and all access to the user's worktree.
//! Knows no sessions, starts no program, follows no links, runs no filter, reads no configuration,
//! no environment and no clock.

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
mod object;
mod path;
mod point;
mod registry;
mod restore;
mod shadow;
mod vault;
mod vcs;
mod walk;
mod worktree;

pub use capture::{Capture, CaptureError, Captured, Mode};
pub use coverage::{Coverage, Permissions, Reason, Scope};
pub use diff::{Diff, DiffOptions, FileDiff, Patch, Status};
pub use gc::{GcReport, Usage};
pub use group::Group;
pub use image::Image;
pub use object::{Leaf, LeafMode, ObjectError, Oid, OidError};
pub use path::{PathError, RelPath};
pub use point::git_point;
pub use registry::{Link, ListedStore, Place, Registry, RegistryError, RootFacts, StoreId};
pub use restore::{
    Action, Conflict, Operation, OperationId, OperationIdError, Order, Plan, Report, RestoreError,
    State, Step, Why, Wish, WishLink,
};
pub use shadow::{OpenError, Shadow};
pub use vault::{
    Damage, Failure, FailureKind, ListedCapture, ListedFile, PathChange, Vault, VaultError,
    VaultOptions, Verified,
};
pub use walk::Selection;
pub use worktree::{RootError, RootPolicy, Worktree};
