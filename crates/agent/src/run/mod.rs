//! The loop that answers prompts: it asks the model, runs its calls, and asks again until it is done.
//!
//! Each turn runs on one thread, which alone writes the messages of the turn. Models answer and tools run on
//! threads of their own and send signals to it. Nothing is remembered between two turns: the next one reads the
//! whole conversation from the database, so any process can answer it.

mod agent_runner;
mod answer;
mod answer_writer;
mod call_host;
mod call_schedule;
mod compaction_run;
mod cost_limit;
mod deadline;
mod failure;
mod gate;
mod latest;
mod request;
mod resume;
mod retry;
mod settings;
mod step;
mod subagent;
mod subtask;
mod system_prompt;
mod title;
mod turn_run;
mod turn_shared;
mod usage;

pub use agent_runner::{AgentRunner, AgentRunnerOptions, RunObserver};
pub use cost_limit::CostLimitedSettings;
pub use settings::{CostFunction, RunAgent, RunLimits, RunModel, RunSettings, SettingsFailure};
