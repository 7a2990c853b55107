//! Mutations: what a caller can do inside a transaction. Each reads the state it decides on here.

mod change_set;
mod expiry;
mod imported_turn;
mod inbox;
mod message;
mod open_step;
mod project;
mod replication;
mod request;
mod session;
mod share;
mod streamed_text;
mod turn;

pub use change_set::{
    ChangeSetMutations, CloseChangeSet, CopyChangeSet, ExpectedPosition, FinishedOperation,
    HeadMoveObstacle, NewChangeSet, NewOperation, OperationMutations,
};
pub use expiry::{GuardExpiry, TurnExpiry, UndoExpiryMutations};
pub use imported_turn::ImportedTurnEnd;
pub use inbox::{PromptDelivery, PromptMutations, PromptReceipt};
pub use message::{MessageMutations, NewPart};
pub use project::ProjectMutations;
pub use replication::{ReplicationOutcome, SyncMutations};
pub use request::RequestMutations;
pub use session::SessionMutations;
pub use share::{ShareMutations, ShareRecord, UnrevokedShare};
pub(crate) use share::{find_share, keep_unrevoked_share};
pub use turn::{EndTurn, NewTurn, TurnEndOutcome, TurnMutations};
pub(crate) use turn::{TurnEnder, failure_or_default};
