//! Permission rules: which of them decides whether a tool may act, and why.
//!
//! Owns the wildcard, the order of sources (docs/permissions.md), the built-in rules and the effects of an answer.
//! Pure functions: pending requests and rules come in, decisions go out.

mod ask_policy;
mod builtin;
mod decision;
mod gate;
mod reply_effects;
mod rule;
mod rule_config;
mod rule_file;
mod untrusted_rules;
mod wildcard;

pub use ask_policy::{AskPolicy, decide_ask};
pub use builtin::{BuiltinAgent, RuleDirectories, agent_rules, default_rules, tool_output_rules};
pub use decision::{
    PermissionVerdict, RuleExplanation, RuleLayer, RuleSource, decide_request, explain_decision,
    explain_each_layer, inherited_rules, list_hidden_tools, permission_of_tool, sort_layers,
};
pub use gate::{CallerRole, GateCaller, GatedOperation, decide_gate};
pub use reply_effects::{ReplyEffects, ReplyError, ResolvedRequest, resolve_reply};
pub use rule::{PermissionRule, RuleAction};
pub use rule_config::{RuleConfigError, parse_rule_config};
pub use rule_file::{AgentTable, PermissionFile, parse_agent_rules};
pub use untrusted_rules::tightening_rules;
pub use wildcard::matches_wildcard;
