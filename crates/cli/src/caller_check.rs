//! Commands that only a person may run: a tool could otherwise grant itself anything (R37).

use turnstone_core::permission::CallerRole;

use crate::app::CliApp;
use crate::error::CliError;

/// Refuses what only a person may do. `action` continues "only a person can".
///
/// # Errors
///
/// [`CliError::Refused`] if an agent runs this program.
pub(crate) fn require_person(app: &CliApp, action: &str) -> Result<(), CliError> {
    match app.role() {
        CallerRole::Person => Ok(()),
        CallerRole::Tool | CallerRole::Runner | CallerRole::Named => Err(CliError::Refused {
            what: format!("only a person can {action}, not a command that an agent runs"),
            hint: Some("run it in your own terminal".to_owned()),
        }),
    }
}
