//! Turns: prompts, the inbox, steps of a model, commands, model context and compaction.

mod assembly;
pub(crate) mod compaction;
pub(crate) mod exec;
mod finished_compaction;
pub(crate) mod inbox;
pub(crate) mod model_context;
pub(crate) mod newest_prompt;
pub(crate) mod prompt_submission;
pub(crate) mod resume;
pub(crate) mod step;
pub(crate) mod step_usage;
pub(crate) mod turn;
mod turn_details;
pub(crate) mod turn_handover;
pub(crate) mod turn_watch;

pub(crate) use assembly::assemble;
pub use prompt_submission::Turns;
