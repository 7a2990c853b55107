//! Mutations: what a caller can do inside a transaction. Each reads the state it decides on here.

mod change_set;
mod expiry;
mod inbox;
mod message;
mod replication;
mod request;
mod session;
mod share;
mod streamed_text;
mod turn;

pub use change_set::{
    CloseChangeSet, CopyChangeSet, FinishedOperation, NewChangeSet, NewOperation,
};
pub use expiry::{GuardExpiry, TurnExpiry};
pub use inbox::{PromptDelivery, PromptReceipt};
pub use message::NewPart;
pub use replication::ReplicationOutcome;
pub use share::ShareRecord;
pub(crate) use share::find_share;
pub use turn::{EndTurn, NewTurn, TurnEndOutcome};
pub(crate) use turn::{TurnEnder, failure_or_default};
