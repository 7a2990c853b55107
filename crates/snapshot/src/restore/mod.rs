//! Putting files back: plan first, guard, swap and judge, verify, report.
//!
//! A plan is a value: printable, serialisable, made from facts that were all obtained before it. It is
//! stored before the first write, so that a killed apply can be finished (R17). No path outside the
//! plan is written, and none whose present bytes are not what the plan saw.

mod apply;
mod crash_recovery;
mod directory_steps;
mod directory_sync;
mod file_swap;
mod guard_space;
mod linked_files;
mod name_exchange;
mod operation_log;
mod path_merge;
mod pending_plan;
mod plan;
mod plan_obstacles;
mod report;
mod step_transaction;
mod stored_form;
mod text_merge;
mod tool_write;

pub use apply::RestoreRunner;
pub(crate) use operation_log::GROUP_PREFIX;
pub use operation_log::{
    LoggedOperation, OperationAction, OperationLog, OperationRequest, RestoreOperationId,
    RestoreOperationIdError,
};
pub(crate) use pending_plan::random_id;
pub use plan::{RestoreError, RestorePlan, RestorePlanner, RestoreStep, TargetState};
pub use report::{ConflictReason, RestoreConflict, RestoreReport};
pub(crate) use tool_write::read_path_state;
pub use tool_write::{ConditionalWrite, PathState, WrittenPath};
