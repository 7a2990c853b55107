//! A session as a transcript: who said what, what was done, what it cost.
//!
//! Makes lines out of values of the model. Reads nothing and prints nothing.

mod message_part;
mod tool_call;
mod transcript_lines;

pub(crate) use transcript_lines::{Transcript, TranscriptDetail};
