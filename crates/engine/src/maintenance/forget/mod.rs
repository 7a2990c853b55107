//! Forgetting: the bytes of paths leave captures, database, search and spilled output (R20).
//!
//! Owns the order: the store records what is to go, then each session that changed such a
//! path says so, then every text that holds a line of it is masked, and the captures are rewritten last,
//! because the lines come from them. A process that finds it recorded continues. Backups are not touched.

mod apply;
mod plan;

pub use apply::ForgetReport;
pub use plan::PathEraser;
pub use plan::{AffectedSession, ForgetPlan};
