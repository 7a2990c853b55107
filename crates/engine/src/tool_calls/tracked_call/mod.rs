//! Calls that touch files: announced before, compared after.

mod close;
mod open;

pub use close::ClosedCall;
pub(crate) use close::compare_captures;
pub use open::TrackedCall;
pub(crate) use open::session_pin_group;
