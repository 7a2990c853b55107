//! Sessions against recorded transcripts, hostile peers, and each other.

mod bounded;
mod check;
mod hostile;
mod map;
mod mutant;
mod noise;
mod pair;
mod peer;
mod refused;
#[path = "../../examples/server/service.rs"]
mod service;
mod socket;
mod transcript;
mod web;
