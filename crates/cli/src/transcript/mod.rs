//! Formats a session as a transcript.
//!
//! Turns values of the model into lines. Does no input or output.

mod call_changes;
mod message_part;
mod tool_call;
mod transcript_lines;

pub(crate) use call_changes::{CallChanges, status_letter};
pub(crate) use tool_call::call_line;
pub(crate) use transcript_lines::{Transcript, TranscriptDetail};
