//! The shadow repository and the worktree on disk: complete, honest, and as cheap as the change.
//!
//! Owns the git directory of a store under the data directory and all access to the user's worktree.
//! Knows no sessions, starts no program, follows no links, runs no filter, reads no configuration,
//! no environment and no clock.

mod bounded_file;
mod capture;
mod capture_chain;
mod capture_expiry;
mod capture_selection;
mod change_journal;
mod coverage;
mod diff;
mod disk_usage;
mod file_hashing;
mod file_watch;
mod forget;
mod gc;
mod git_position;
mod ignore_rules;
mod journal_audit;
mod object_store;
mod pack_reuse;
mod path;
mod path_image;
mod pin_group;
mod reachability;
mod registry;
mod repack;
mod restore;
mod snapshot_handle;
mod snapshot_store;
mod stat_cache;
mod storage_budget;
mod store_removal;
mod user_git;
mod worktree;
mod worktree_index;
mod worktree_walk;

pub use bounded_file::{open_regular_file, read_bounded_file};
pub use capture::{Capture, CaptureError, CaptureMode, CaptureOutcome};
pub use capture_expiry::{ExpireError, ExpiredCaptures, ExpiryStep};
pub use capture_selection::CaptureSelection;
pub use change_journal::JournalStatus;
pub use coverage::{CaptureCoverage, CaptureScope, CapturedPermissions, UncoveredReason};
pub use diff::{
    CaptureDiff, DetectedRename, DiffError, DiffOptions, DiffStatus, PatchBody, PathDiff,
    UntrackedFiles, UntrackedPatch,
};
pub use disk_usage::{DiskUsageReport, GroupUsage, PathUsage, StoreUsage};
pub use file_watch::JournalState;
pub use forget::{ForgettableVersion, ForgettableVersions, Tombstones, patterns_match_path};
pub use gc::{GcOptions, GcReport, KeepReason, KeptGroup};
pub use git_position::read_git_position;
pub use journal_audit::JournalAudit;
pub use object_store::{LeafMode, ObjectError, Oid, OidError, TreeLeaf};
pub use pack_reuse::PackReleaseReport;
pub use path::{RelPath, RelPathError};
pub use path_image::PathImage;
pub use pin_group::PinGroup;
pub use registry::{
    ListedStore, RegistryError, RootIdentity, StoreId, StoreLinkage, StoreLocation, StoreRegistry,
};
pub use repack::{MaintenanceInterval, RepackReport};
pub use restore::{
    ConditionalWrite, ConflictReason, FileState, LoggedOperation, OperationAction, OperationId,
    OperationIdError, OperationRequest, PathState, RestoreConflict, RestoreError, RestorePlan,
    RestoreReport, RestoreStep, TargetLink, TargetState,
};
pub use snapshot_handle::{
    DamagedObject, EvictionRequest, GcOutcome, GcRequest, ListedCapture, ListedFile, PathChange,
    SnapshotError, SnapshotHandle, SnapshotOptions, StoreFailure, StoreFailureKind, VerifyReport,
};
pub use snapshot_store::{SnapshotStore, StoreOpenError};
pub use storage_budget::{
    BudgetLimit, EvictionOptions, EvictionReport, FreeSpaceFloor, OverBudget, StorageBudget,
};
pub use store_removal::{RemovalError, finish_removals, remove_store};
pub use user_git::{
    RepositoryError, RepositoryLocation, SafeDirectories, UserGitSettings, discover_repository,
    find_excludes_file,
};
pub use worktree::{RootError, RootPolicy, Worktree, set_worktree_mask};
