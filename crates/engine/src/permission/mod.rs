//! Permissions: rules gathered from where they are kept, requests that outlive the process that
//! asked, and answers that count once.

mod ask;
mod beside;
mod error;
mod gate;
mod rules;
mod standing;

pub use ask::{Asked, NewAsk, Replied, Resumed};
pub use error::PermissionError;
pub use gate::{Refusal, Ruling};
pub use rules::{BaseRules, Rules, read_rules};
pub use standing::StandingRules;
