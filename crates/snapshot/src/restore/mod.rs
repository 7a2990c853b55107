//! Putting files back: plan first, guard, swap and judge, verify, report.
//!
//! A plan is a value: printable, serialisable, made from facts that were all obtained before it. It is
//! stored before the first write, so that a killed apply can be finished (R17). No path outside the
//! plan is written, and none whose present bytes are not what the plan saw.

mod apply;
mod durable;
mod group;
mod merge;
mod plan;
mod record;
mod recover;
mod report;
mod step;
mod stored;
mod swap;
mod write;

pub use plan::{Plan, RestoreError, State, Step, Wish, WishLink};
pub(crate) use record::GROUP_PREFIX;
pub use record::{Action, Operation, OperationId, OperationIdError, Order};
pub use report::{Conflict, Report, Why};
pub(crate) use stored::mint;
pub use write::{FileWrite, Seen};
