//! The prompts and descriptions of the built-in agents.

use turnstone_core::permission::BuiltinAgent;

/// Returns the prompt of agents that bring none: how to work on code with tools.
pub(super) const fn working_prompt() -> &'static str {
    include_str!("prompts/working.txt")
}

/// Returns the prompt of a built-in agent.
pub(super) const fn builtin_prompt(agent: BuiltinAgent) -> &'static str {
    match agent {
        BuiltinAgent::Build => working_prompt(),
        BuiltinAgent::Plan => include_str!("prompts/plan.txt"),
        BuiltinAgent::General => include_str!("prompts/general.txt"),
        BuiltinAgent::Explore => include_str!("prompts/explore.txt"),
        BuiltinAgent::Compaction => include_str!("prompts/compaction.txt"),
        BuiltinAgent::Title => include_str!("prompts/title.txt"),
        BuiltinAgent::Summary => include_str!("prompts/summary.txt"),
    }
}

/// Returns what a built-in agent is for; other agents read it, too.
pub(super) const fn builtin_description(agent: BuiltinAgent) -> Option<&'static str> {
    match agent {
        BuiltinAgent::Build => Some("Works on the code with every tool the rules allow."),
        BuiltinAgent::Plan => Some("Thinks first: changes no file but plans."),
        BuiltinAgent::General => Some("Takes on a task of its own for another agent."),
        BuiltinAgent::Explore => Some("Looks around in the code and changes nothing."),
        BuiltinAgent::Compaction | BuiltinAgent::Title | BuiltinAgent::Summary => None,
    }
}
