//! Raw records as values of the model: ids made to fit, references with them, old shapes completed.
//!
//! What a shape of today needs and an older one did not have is filled in; what is there is never
//! changed, except ids that do not fit (R30). What cannot be made to fit is refused in words. Knows
//! neither the source nor the store.

mod field;
mod message;
mod part;
mod place;
mod session;

pub(crate) use field::Refused;
pub(crate) use message::{Neighbours, message};
pub(crate) use part::part;
pub(crate) use place::{diff, place, project, rule, share, todos};
pub(crate) use session::session;
