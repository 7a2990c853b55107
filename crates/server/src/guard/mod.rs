//! Who may ask at all: name and password, origins, host names, how often.
//!
//! Every request passes here before a handler sees it; a refusal changes nothing.

mod access;
mod authenticate;
mod check;
mod failures;
mod host;
mod origin;
mod password;
mod rate;

pub(crate) use access::restrict;
pub(crate) use check::check;
pub(crate) use rate::Rates;
