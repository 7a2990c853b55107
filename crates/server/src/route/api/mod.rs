//! The newer routes of OpenCode under `/api`: the same things in other shapes.

mod catalog;
mod fs;
mod location;
mod message;
mod page;
mod request;
mod session;
mod surface;
mod tag;

pub(super) use surface::routes;
