//! Formats a session as a transcript.
//!
//! Turns values of the model into lines. Does no input or output.

mod message_part;
mod tool_call;
mod transcript_lines;

pub(crate) use transcript_lines::{Transcript, TranscriptDetail};
