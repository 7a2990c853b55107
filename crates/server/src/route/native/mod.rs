//! The native routes below `/turnstone`: what an agent in any language needs to run turns, and what a
//! person needs to see and to take back what they did.
//!
//! Every answer about a session carries its sequence number as `ETag`; `If-Match` makes a change
//! depend on it, an `Idempotency-Key` makes it happen once.

mod answer;
mod ask;
mod coverage;
mod history;
mod input;
mod log;
mod runner;
mod server;
mod step;
mod table;
mod timeline;
mod tool;
mod turn;

pub(super) use table::routes;
