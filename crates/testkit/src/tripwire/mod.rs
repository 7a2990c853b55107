//! Git repositories that try to run a program: one for each known way.
//!
//! The program leaves a trace. A test runs what it examines in every one of these repositories and finds
//! no trace; before that it lets plain git fire each tripwire, so that it is known to work.

mod hostile_repository;
mod nested_repositories;
mod tripwire_list;

pub use hostile_repository::HostileRepository;
pub use tripwire_list::{TRIPWIRES, Tripwire, TripwireTrigger};
