//! Captures of a worktree: complete, with what they do not cover, at the cost of what changed.
//!
//! Owns the git directory of a store under the data directory and all access to the user's worktree.
//! Knows no sessions, starts no program, follows no links, runs no filter, reads no configuration,
//! no environment and no clock.

mod bounded_file;
mod capture;
mod capture_catalog;
mod capture_chain;
mod capture_expiry;
mod capture_listing;
mod capture_pins;
mod capture_rules;
mod change_journal;
mod coverage;
mod deleted_groups;
mod diff;
mod disk_usage;
mod eviction;
mod file_hashing;
mod file_watch;
mod forced_paths;
mod foreign_snapshots;
mod forget;
mod gc;
mod git_position;
mod ignore_rules;
mod journal_audit;
mod named_paths;
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
mod unfinished_files;
mod user_git;
mod verify;
mod worktree;
mod worktree_index;
mod worktree_walk;
mod written_capture;

pub use bounded_file::{open_regular_file, read_bounded_file};
pub use capture::{Capture, CaptureError, CaptureMode, CaptureOutcome};
pub use capture_catalog::CaptureCatalog;
pub use capture_expiry::{CaptureChainTrimmer, ExpireError, ExpiredCaptures, ExpiryStep};
pub use capture_listing::{ListedCapture, ListedFile};
pub use capture_pins::GroupPins;
pub use capture_rules::CaptureRules;
pub use change_journal::{JournalStatus, WorktreeJournal};
pub use coverage::{
    CaptureCoverage, CaptureScope, CapturedDirectories, CapturedPermissions, LargeFileStat,
};
pub use deleted_groups::{DeletedGroups, find_deleted_groups};
pub use diff::{
    CaptureDiff, CaptureDiffs, DetectedRename, DiffError, DiffOptions, DiffStatus, PatchBody,
    PathDiff, SizedFileChange, UntrackedFiles, UntrackedPatch,
};
pub use disk_usage::{DiskUsageReport, GroupUsage, PathUsage, StoreInspection, StoreUsage};
pub use eviction::{CaptureEviction, EvictionReport, EvictionRequest};
pub use file_watch::JournalState;
pub use foreign_snapshots::{
    AdoptedStep, ForeignSnapshots, RecordedPath, RecordedStep, find_foreign_snapshots,
};
pub use forget::{
    ForgettableVersion, ForgettableVersions, PathForgetter, Tombstones, patterns_match_path,
};
pub use gc::{GarbageCollector, GcOptions, GcReport, KeepReason, KeptGroup};
pub use git_position::read_git_position;
pub use journal_audit::JournalAudit;
pub use object_store::{FileMode, ObjectError, Oid, OidError, TreeLeaf};
pub use pack_reuse::PackReleaseReport;
pub use path::{RelPath, RelPathError};
pub use path_image::{PathImage, UncoveredReason};
pub use pin_group::PinGroup;
pub use registry::{
    ListedStore, RegistryError, RootIdentity, StoreId, StoreLinkage, StoreLocation, StoreRegistry,
    read_directory_identity,
};
pub use repack::{MaintenanceInterval, PackMaintenance, RepackReport};
pub use restore::{
    ConditionalWrite, ConflictReason, LoggedOperation, OperationAction, OperationLog,
    OperationRequest, PathState, RestoreConflict, RestoreError, RestoreOperationId,
    RestoreOperationIdError, RestorePlan, RestorePlanner, RestoreReport, RestoreRunner,
    RestoreStep, TargetState, WrittenPath,
};
pub use snapshot_handle::{
    BASELINE_GROUP, GcOutcome, GcRequest, SnapshotError, SnapshotHandle, SnapshotMaintenance,
    SnapshotOptions, SnapshotReader, StoreFailure, StoreFailureKind, StoreStatus,
};
pub use snapshot_store::{SnapshotStore, StoreOpenError};
pub use storage_budget::{BudgetLimit, FreeSpaceFloor, OverBudget, StorageBudget, free_disk_bytes};
pub use store_removal::{RemovalError, remove_store};
pub use user_git::{
    RepositoryError, RepositoryLocation, SafeDirectories, UserGitSettings, discover_repository,
    find_excludes_file,
};
pub use verify::{DamagedObject, VerifyReport};
pub use worktree::{RootError, RootPolicy, Worktree, set_worktree_mask};
