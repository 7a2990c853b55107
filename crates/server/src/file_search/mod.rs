//! Search in the files of a project, bounded in every direction.
//!
//! All searches of a server share a small pool. Each has a budget of entries, bytes and work, a time
//! limit, and stops when its client goes away; whatever it left out is reported. Reads files only
//! below the root of the project, without following links.

mod ignore_rules;
mod name_search;
mod project_walk;
mod search_budget;
mod search_pool;
mod text_search;

pub(crate) use ignore_rules::{CompiledRules, RuleBudget, read_rules};
pub(crate) use name_search::{NameQuery, find_names};
pub(crate) use search_budget::SearchTruncation;
pub(crate) use search_pool::SearchPool;
pub(crate) use text_search::{find_lines, parse_pattern};
