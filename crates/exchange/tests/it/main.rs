//! Import and export as a whole: hand-made sources, broken ones, and those of the real program.

mod broken;
mod case;
mod merge;
mod opencode;
mod roundtrip;
mod source;
mod storage;
