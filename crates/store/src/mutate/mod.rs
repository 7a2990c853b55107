//! Mutations: what a caller can do inside a transaction. Each reads the state it decides on here.

mod change;
mod content;
mod expire;
mod inbox;
mod place;
mod request;
mod share;
mod text;
mod turn;

pub use change::{CloseChange, CopyChange, DoneOperation, NewOperation, OpenChange};
pub use expire::Expiring;
pub use inbox::{Admitted, Delivery};
pub use share::ShareRecord;
pub(crate) use share::find_share;
pub(crate) use turn::Hand;
pub use turn::{EndTurn, Ended, NewTurn};
