//! Sessions against recorded transcripts, hostile peers, and each other.

mod hostile;
mod noise;
mod pair;
mod peer;
#[path = "../../examples/server/service.rs"]
mod service;
mod transcript;
mod web;
