//! Projections: what an event does to the tables that index the log.
//!
//! The same function runs live and on rebuild. It looks at nothing but the event and the rows, and
//! each event touches its own entity only, so a rebuild may go class by class.

mod apply_event;
mod change_set;
mod message;
mod session;
mod turn;

pub(crate) use apply_event::{ProjectionEvent, apply_event};
