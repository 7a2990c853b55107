//! The doctor: looks at everything a store consists of and says what is wrong, where, and what
//! helps. Changes nothing, and works when the store cannot be opened.
//!
//! Owns no data. What is to be done about a finding is somebody else's command.

mod data_dir_check;
mod examination;
mod file_check;
mod log_check;
mod report;
mod table_check;

use examination::CheckContext;
pub use examination::diagnose;
pub use report::{Diagnosis, Finding, Severity};
use report::{DiagnosisBuilder, display_path, remedy};
