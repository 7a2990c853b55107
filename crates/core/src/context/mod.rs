//! The arithmetic of a model's context: when it is full, what is kept, what is cleared.
//!
//! Owns the selection of messages after a compaction, of the tail a compaction keeps and of the
//! tool outputs that are pruned. Writes no summary and calls no model: it only says which messages
//! and parts are meant. Messages come in stream order, never ordered by id.

mod filter;
mod limit;
mod model;
mod order;
mod prune;
mod repeat;
mod resume;
mod tail;
mod transcript;

pub use filter::{CompletedCompaction, Entry, completed_compactions, filter_compacted, summary_of};
pub use limit::{Limits, Settings, estimate, is_overflow, token_count, usable};
pub use model::{
    AssistantContent, CLEARED, CUT_OFF, ModelFile, ModelMessage, ModelTarget, ToolOutput,
    ToolResult, UserContent, model_size, to_model_messages,
};
pub use order::{TakenUp, place_prompts};
pub use prune::{mark_compacted, select_prune};
pub use repeat::find_repeat;
pub use resume::{ask_again, go_on};
pub use tail::{Tail, recent_budget, replay_point, select_tail};
pub use transcript::transcript;
