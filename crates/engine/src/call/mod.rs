//! Calls that touch files: announced before, compared after.

mod close;
mod open;

pub use close::Closed;
pub(crate) use close::compare;
pub use open::Call;
pub(crate) use open::group_of;
