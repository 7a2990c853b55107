//! Search in the files of a project, bounded in every direction.
//!
//! All searches of a server share a small pool. Each has a budget of entries, bytes and work, a time
//! limit, and stops when its client goes away; whatever it left out is reported. Reads files only
//! below the root of the project, without following links.

mod budget;
mod ignore_rules;
mod names;
mod pool;
mod text;
mod walk;

pub(crate) use budget::Truncation;
pub(crate) use ignore_rules::{CompiledRules, RuleBudget, read_rules};
pub(crate) use names::{NameQuery, find_names};
pub(crate) use pool::SearchPool;
pub(crate) use text::{find_lines, parse_pattern};
