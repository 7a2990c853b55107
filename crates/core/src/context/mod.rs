//! The arithmetic of a model's context: when it is full, what is kept, what is cleared.
//!
//! Owns the selection of messages after a compaction, of the tail a compaction keeps and of the
//! tool outputs that are pruned. Writes no summary and calls no model: it only says which messages
//! and parts are meant. Messages come in stream order, never ordered by id.

mod compaction_filter;
mod compaction_tail;
mod continuation;
mod loop_detection;
mod model_messages;
mod prompt_order;
mod prune;
mod token_limits;
mod transcript;

pub use compaction_filter::{
    CompletedCompaction, ContextMessage, completed_compactions, filter_compacted,
    summarized_request,
};
pub use compaction_tail::{ContextTail, find_replay_point, select_tail, tail_budget};
pub use continuation::{continuation_part, replay_prompt_parts};
pub use loop_detection::find_tool_loop;
pub use model_messages::{
    AssistantContent, CLEARED_OUTPUT, INTERRUPTED_RESULT, ModelFile, ModelMessage, ModelTarget,
    ToolOutput, ToolResult, UserContent, estimate_model_tokens, to_model_messages,
};
pub use prompt_order::{PromotedPrompt, place_promoted_prompts};
pub use prune::{mark_compacted, select_outputs_to_prune};
pub use token_limits::{
    CompactionSettings, ModelLimits, estimate_tokens, is_overflow, token_count, usable_tokens,
};
pub use transcript::render_transcript;
