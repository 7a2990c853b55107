//! The newer routes of OpenCode under `/api`: the same things in other shapes.

mod catalog;
mod compact;
mod fs;
mod location;
mod message;
mod message_v2;
mod page_request;
mod pty;
mod request;
mod revert;
mod router;
mod session;
mod session_v2;
mod tagged_errors;

pub(super) use router::routes;
