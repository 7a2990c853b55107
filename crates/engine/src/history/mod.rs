//! History: undo, redo, revert, jump, checkpoints, diffs and forks of a session.

mod assembly;
pub(crate) mod checkout_turns;
pub(crate) mod checkpoint;
pub(crate) mod client_edit;
pub(crate) mod diff;
pub(crate) mod diff_event_size;
pub(crate) mod fork;
pub(crate) mod historical_state;
pub(crate) mod imported_session;
pub(crate) mod imported_snapshots;
pub(crate) mod jump;
pub(crate) mod patch_text;
pub(crate) mod pending_turn_ends;
pub(crate) mod replication;
pub(crate) mod revert;
pub(crate) mod revert_view;
pub(crate) mod session_changes;
pub(crate) mod session_recovery;
pub(crate) mod timeline;
pub(crate) mod timeline_branch;
pub(crate) mod undo;
pub(crate) mod undo_redo;

pub(crate) use assembly::{HistoryInputs, assemble};
pub use undo_redo::History;
