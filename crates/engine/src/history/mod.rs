//! History: undo, redo, revert, jump, checkpoints, diffs and forks of a session.

pub(crate) mod checkpoint;
pub(crate) mod client_edit;
pub(crate) mod diff;
pub(crate) mod diff_event_size;
pub(crate) mod fork;
pub(crate) mod historical_state;
pub(crate) mod jump;
pub(crate) mod replication;
pub(crate) mod revert;
pub(crate) mod revert_view;
pub(crate) mod session_branch;
pub(crate) mod timeline;
pub(crate) mod undo;
