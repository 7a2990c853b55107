//! Undo, planned from change sets only, never from what differs between two trees; and redo, which walks
//! back what an undo wrote down.

mod apply;
mod availability;
mod concurrent_writes;
mod contention;
mod imported_files;
mod lost_window;
mod missing_directories;
mod operation_json;
mod other_conversations;
mod plan;
mod redo_selection;
mod redo_steps;
mod selection;
mod trace_remarks;
mod types;

pub(crate) use apply::OperationRunner;
pub(crate) use concurrent_writes::find_concurrent_writes;
pub(crate) use contention::to_claim;
pub use operation_json::{
    CheckpointChange, decode_checkpoint, decode_expired_guards, decode_leader, decode_report,
    decode_turns,
};
pub(crate) use operation_json::{
    decode_other_turns, decode_plan, decode_store_operations, encode_branch, encode_checkpoint,
    encode_plan, encode_report, is_timeline_switch, written_paths,
};
pub(crate) use other_conversations::OtherConversations;
pub use other_conversations::{ConversationMove, UnmovedConversation, UnmovedReason};
pub(crate) use plan::OperationPlanner;
pub(crate) use plan::PathHistory;
pub(crate) use selection::{ChangeSetUndoState, OperationSelection, SideEffects};
pub(crate) use selection::{UndoSelection, is_within_turn, list_descendants};
pub use trace_remarks::ForeignChanges;
pub use types::{
    ContendedPath, LostWindow, MissingCapture, OperationReport, RepositoryMove, RootPlan,
    RootReport, TimelineSwitch, UndoAspect, UndoOptions, UndoPlan, UndoTarget, UnobservedRoot,
};
