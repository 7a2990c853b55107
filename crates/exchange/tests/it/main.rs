//! Import and export as a whole, with hand-made sources, good and broken.

#[path = "../case/mod.rs"]
mod case;
mod event_log;
mod handmade_source;
mod hostile_source;
mod malformed_rows;
mod reimport;
mod roundtrip;
mod rule_trust;
mod source;
mod storage;
