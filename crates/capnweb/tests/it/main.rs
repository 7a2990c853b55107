//! Sessions against recorded transcripts, hostile peers, and each other.

mod check;
mod client_server;
mod fixture;
mod hostile_peer;
mod http_batch;
mod memory_limits;
mod mutated_input;
mod npm_transcript;
mod random_messages;
mod remote_map;
#[path = "../../examples/server/service.rs"]
mod service;
mod websocket;
mod websocket_limits;
