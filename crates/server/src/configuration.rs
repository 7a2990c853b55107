//! Which configuration applies to a request. It is read again each time, because its files may have changed.

use axum::http::StatusCode;
use serde_json::{Value, json};
use turnstone_config::{ConfigEnvironment, ConfigError, ConfigSources, Configuration};

use crate::app::AppState;
use crate::config_response::ShownConfig;
use crate::error::ApiError;
use crate::project_directory::ProjectDirectory;

impl From<ConfigError> for ApiError {
    fn from(error: ConfigError) -> Self {
        Self::tagged(StatusCode::BAD_REQUEST, "ConfigInvalidError", &error.to_string())
            .with_field("path", error.shown_file())
    }
}

fn config_environment(app: &AppState) -> ConfigEnvironment {
    let settings = app.settings();
    let folders = &settings.folders;
    ConfigEnvironment::new(&folders.home, &folders.config, &folders.data)
        .with_variables(&settings.variables)
}

/// The configuration of a project directory.
pub(crate) fn project_config(
    app: &AppState,
    place: &ProjectDirectory,
) -> Result<Configuration, ApiError> {
    let environment = config_environment(app);
    let project = Some((place.root.as_path(), place.directory.as_path()));
    Ok(Configuration::load(&ConfigSources { environment: &environment, project })?)
}

/// The configuration of this user, wherever the work is.
pub(crate) fn global_config(app: &AppState) -> Result<Configuration, ApiError> {
    let environment = config_environment(app);
    Ok(Configuration::load(&ConfigSources { environment: &environment, project: None })?)
}

/// The whole configuration for a client: secrets are hidden, and nothing is shared or updated.
pub(crate) fn config_json(config: &Configuration, user: &str) -> ShownConfig {
    let mut map = config.shown_settings().clone();
    for key in ["command", "agent", "mode"] {
        map.entry(key).or_insert_with(|| json!({}));
    }
    map.entry("plugin").or_insert_with(|| json!([]));
    map.entry("username").or_insert_with(|| Value::from(user));
    map.insert("share".to_owned(), Value::from("disabled"));
    map.insert("autoupdate".to_owned(), Value::from(false));
    ShownConfig::new(Value::Object(map))
}
