//! Permissions: rules gathered from where they are kept, requests that outlive the process that
//! asked, and answers that count once.

mod ask;
mod ask_without_turn;
mod assembly;
mod configured_rules;
mod error;
mod gate;
mod gate_request;
mod path_names;
mod rules;
mod tool_denial;

pub use ask::Permissions;
pub use ask::{PermissionOutcome, PermissionQuery, ReplyReport, ResumedTurn};
pub(crate) use assembly::assemble;
pub use configured_rules::RuleSettings;
pub use error::PermissionError;
pub use gate::OperationGates;
pub use gate::{GateDecision, GateRefusal};
pub(crate) use path_names::is_link_circle;
pub use path_names::resolve_path;
pub use rules::PermissionRules;
pub use rules::{EffectiveRules, RuleScope};
