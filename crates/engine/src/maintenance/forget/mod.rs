//! Forgetting: the bytes of paths leave captures, ledger, search and spilled output (R20).
//!
//! Owns the order: what is to go is written down in the store, then each session that changed such a
//! path says so, then every text that holds a line of it is starred out, and the captures go last,
//! because they are what tells the lines. Whoever finds it written down goes on. Backups are not touched.

mod apply;
mod plan;

pub use apply::ForgetReport;
pub use plan::Forgets;
pub use plan::{AffectedSession, ForgetPlan};
