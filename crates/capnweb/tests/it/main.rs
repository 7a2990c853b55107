//! Sessions against recorded transcripts, hostile peers, and each other.

mod check;
mod hostile;
mod map;
mod mutant;
mod noise;
mod pair;
mod peer;
#[path = "../../examples/server/service.rs"]
mod service;
mod socket;
mod transcript;
mod web;
