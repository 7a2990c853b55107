//! The native routes below `/turnstone`: what an agent in any language needs to run turns, and what a
//! person needs to see and to undo what they did.
//!
//! Every answer about a session carries its sequence number as `ETag`; `If-Match` makes a change
//! depend on it, an `Idempotency-Key` makes it happen once.

mod body_deserializer;
mod compaction;
mod coverage;
mod log;
mod permission_ask;
mod router;
mod runner;
mod seq_stamped;
mod server;
mod step;
mod step_usage;
mod timeline;
mod tool;
mod turn;
mod turn_details;
mod turn_file;
mod typed_body;
mod undo;

pub(super) use router::routes;
