//! Mutations: what a caller can do inside a transaction. Each reads the state it decides on here.

mod change;
mod content;
mod expire;
mod inbox;
mod place;
mod replica;
mod request;
mod share;
mod text;
mod turn;

pub use change::{CloseChange, CopyChange, DoneOperation, NewOperation, OpenChange};
pub use content::NewPart;
pub use expire::Expiring;
pub use inbox::{Admitted, Delivery};
pub use replica::Replicated;
pub use share::ShareRecord;
pub(crate) use share::find_share;
pub use turn::{EndTurn, Ended, NewTurn};
pub(crate) use turn::{Hand, failure};
