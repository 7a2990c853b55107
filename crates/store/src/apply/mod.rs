//! Projections: what an event does to the tables that index the log.
//!
//! The same function runs live and on rebuild. It looks at nothing but the event and the rows, and
//! each event touches its own entity only, so a rebuild may go class by class.

mod change;
mod content;
mod event;
mod place;
mod turn;

pub(crate) use event::{Applied, apply};
