//! The doctor: looks at everything a store consists of and says what is wrong, where, and what
//! helps. Changes nothing, and works when the store cannot be opened.
//!
//! Owns no data. What is to be done about a finding is somebody else's command.

mod exam;
mod file;
mod log;
mod place;
mod report;
mod table;

use exam::Exam;
pub use exam::doctor;
pub use report::{Diagnosis, Finding, Severity};
use report::{Report, remedy, show};
