//! Everything that was asked of OpenCode 1.18.33 in its recordings, by programs of ours and by its own clients, asked
//! of this server in the same order.
//!
//! Status, headers and bodies are compared; names that each server makes are matched as they come. What differs
//! must be one of [`difference::TABLE`], each of which is a row of `docs/http.md` or `docs/events.md`, and each of
//! which must still be true.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test program uses what it needs of it")]
mod support;

mod compare;
mod crash;
mod event_comparison;
mod id_mapping;
mod known_differences;
mod prepared_server;
mod recorded_clients;
mod recorded_driver;
mod recorded_sessions;
mod recording;
mod replay;
mod stream_reader;
