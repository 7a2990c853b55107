//! The configuration of agents and models that applies in a directory.

use std::path::Path;

use turnstone_config::{
    AuthError, ConfigEnvironment, ConfigError, ConfigSources, Configuration, TrustError,
};

use crate::app::CliApp;
use crate::error::CliError;
use crate::project_location::ProjectLocation;

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let hint = Some("`turnstone config check` reads all files again".to_owned());
        Self::Refused { what: error.to_string(), hint }
    }
}

impl From<AuthError> for CliError {
    fn from(error: AuthError) -> Self {
        let hint = Some("correct the file or remove it, then store the keys again".to_owned());
        Self::Refused { what: error.to_string(), hint }
    }
}

impl From<TrustError> for CliError {
    fn from(error: TrustError) -> Self {
        let hint = Some("correct the file, or remove it to trust nothing".to_owned());
        Self::Refused { what: error.to_string(), hint }
    }
}

/// What configuration is read with.
pub(crate) fn config_environment(app: &CliApp) -> ConfigEnvironment {
    let folders = app.user_git_config();
    let home = folders.home.as_deref().unwrap_or(Path::new(""));
    let config = folders.config.as_deref().unwrap_or(Path::new(""));
    ConfigEnvironment::new(home, config, app.layout().root())
        .with_variables(app.environment_variables())
}

/// Loads the configuration that applies in a directory, and returns the root of its project.
///
/// # Errors
///
/// The directory does not exist, or the configuration has a mistake.
pub(crate) fn load_configuration(
    app: &CliApp,
    directory: &Path,
) -> Result<(Configuration, String), CliError> {
    let real = fs_err::canonicalize(directory).map_err(|source| CliError::File {
        what: format!("cannot open the directory {}", directory.display()),
        source,
    })?;
    let engine = app.open_engine()?;
    let location = ProjectLocation::find(&engine, &app.context(), &real)?;
    let environment = config_environment(app);
    let project = Some((Path::new(&location.root), real.as_path()));
    let config = Configuration::load(&ConfigSources { environment: &environment, project })?;
    Ok((config, location.root))
}
