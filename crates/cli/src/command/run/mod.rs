//! `turnstone run`: the agent answers a prompt in this process, and the terminal follows.

mod agent_choice;
mod json_events;
mod person_answer;
mod prompt_parts;
mod run_args;
mod run_command;
mod run_follower;
mod run_summary;
mod terminal_events;
mod usage_total;

pub(crate) use run_args::RunArgs;
pub(crate) use run_command::run;
