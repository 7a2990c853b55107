//! Commands as turns: any program runs between two captures, and what it did can be taken back.
//!
//! Owns the rows of such a turn and their order. Starts no process itself: whoever has the streams
//! does, and hands over the group before it lets the command go (R32).

mod abort;
mod begin;
mod end;
mod group;
mod manner;
mod ran;
mod rows;

pub use abort::Abort;
pub use begin::{Beside, Execution};
pub use end::CommandEnd;
pub use manner::Shell;
pub use ran::Ran;
