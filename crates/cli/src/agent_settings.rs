//! The settings of the agent, from the environment of this program.

use std::ffi::OsString;
use std::sync::Arc;

use turnstone_agent::configuration::{ConfiguredRunSettings, RunEnvironment};
use turnstone_engine::{Engine, SupervisorProgram};
use turnstone_server::PASSWORD_VARIABLES;

use crate::app::{CliApp, SUPERVISE};
use crate::clock;
use crate::configuration::config_environment;
use crate::error::CliError;

/// Returns the settings of the agent. No configuration is read before it is needed.
///
/// # Errors
///
/// A proxy variable is invalid, or the path of this program is unknown.
pub(crate) fn agent_settings(
    app: &CliApp,
    engine: &Arc<Engine>,
) -> Result<ConfiguredRunSettings, CliError> {
    let environment = RunEnvironment {
        engine: engine.clone(),
        configuration: config_environment(app),
        variables: variables_without_password(app),
        supervisor: SupervisorProgram {
            program: app.executable_path()?.to_owned(),
            args: vec![OsString::from(SUPERVISE)],
        },
        is_traced: app.read_config()?.exec.trace,
        clock: clock::now,
    };
    ConfiguredRunSettings::new(environment).map_err(|error| CliError::Refused {
        what: format!("cannot make requests to models: {error}"),
        hint: Some("check the proxy variables, such as HTTPS_PROXY".to_owned()),
    })
}

/// The variables of the server without its password, which no command of a model may see.
fn variables_without_password(app: &CliApp) -> Vec<(OsString, OsString)> {
    let is_password = |name: &OsString| PASSWORD_VARIABLES.iter().any(|it| name == it);
    let all = app.environment_variables().iter();
    all.filter(|(name, _)| !is_password(name)).cloned().collect()
}
