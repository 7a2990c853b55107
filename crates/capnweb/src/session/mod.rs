//! A session: two tables, the rules of their ids, and what each message does to them.
//!
//! Without input or output: text goes in, text and [`Event`]s come out. The owner carries the text,
//! runs the calls, tells the time, and may use any runtime or none.

mod access;
mod account;
mod cell;
mod deliver;
mod evaluate;
mod event;
mod export;
mod flow;
mod hook;
mod limits;
mod mailbox;
mod map;
mod outgoing;
mod pipe;
mod record;
mod settle;
mod slot;
mod stub;
mod table;
mod turn;
mod window;
mod work;

#[cfg(feature = "server")]
pub(crate) use account::{Account, Charge, ENTRY_BYTES};
pub use event::{Call, CallId, Event};
pub use hook::{Later, Member, MemberKind, Reply, Target};
pub use limits::{Options, SessionLimits};
pub use pipe::{Readable, Writable, stream};
pub use stub::{Promise, PromiseFuture, Stub};
pub use turn::Session;
