//! Turns: prompts, the inbox, steps of a model, commands, model context and compaction.

mod assembly;
pub(crate) mod compaction;
pub(crate) mod exec;
pub(crate) mod inbox;
pub(crate) mod model_context;
pub(crate) mod newest_prompt;
pub(crate) mod prompt_submission;
pub(crate) mod resume;
pub(crate) mod step;
pub(crate) mod turn;
pub(crate) mod turn_handover;

pub(crate) use assembly::assemble;
pub use prompt_submission::Turns;
