//! Who may ask at all: name and password, origins, host names, how often.
//!
//! Every request passes here before a handler sees it; a refusal changes nothing.

mod access;
mod authenticate;
mod host;
mod origin;
mod password;
mod password_failures;
mod rate_limit;
mod request_check;

pub(crate) use access::restrict;
pub(crate) use rate_limit::RateLimits;
pub(crate) use request_check::check_request;
