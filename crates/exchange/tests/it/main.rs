//! Import and export as a whole, with hand-made sources, good and broken.

mod broken;
#[path = "../case/mod.rs"]
mod case;
mod hand;
mod hostile;
mod log;
mod merge;
mod roundtrip;
mod source;
mod storage;
mod trust;
