//! The newer routes of OpenCode under `/api`: the same things in other shapes.

mod catalog;
mod compact;
mod fs;
mod location;
mod message;
mod page;
mod request;
mod revert;
mod session;
mod surface;
mod tag;

pub(super) use surface::routes;
