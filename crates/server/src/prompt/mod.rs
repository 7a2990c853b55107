//! Prompts: read from a request, filled in with what they name, stored, and answered.
//!
//! Runs no model: a runner, in this process or outside, takes prompts from the inbox; without one the answer says so.

mod agent_choice;
mod answer;
mod command_template;
mod duplicate_prompt;
mod expand;
mod prompt_file;
mod prompt_flow;
mod prompt_input;

pub(crate) use agent_choice::{ChosenAgent, RequestedAgent, choose_agent};
pub(crate) use answer::{end_driven_turn, new_answer};
pub(crate) use command_template::{TemplatePiece, find_mentions, shell_parameters};
pub(crate) use prompt_flow::{
    find_earlier_prompt, prompt_and_wait, prompt_in_background, take_up_inbox,
    wait_for_earlier_answer,
};
pub(crate) use prompt_input::{FileInput, PartInput, PartInputKind, PromptInput, read_model};
