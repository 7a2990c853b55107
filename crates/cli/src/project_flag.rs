//! Resolves the flag `--project [ID]`.

use turnstone_core::id::ProjectId;
use turnstone_store::{Context, Store};

use crate::app::CliApp;
use crate::error::CliError;
use crate::id_prefix::IdPrefix;
use crate::project_location::ProjectLocation;

/// The project with this ID, or the project of the current directory.
///
/// # Errors
///
/// [`CliError::NotInProject`], or what [`IdPrefix::resolve_project`] answers.
pub(crate) fn resolve_project_or_current(
    app: &CliApp,
    store: &Store,
    ctx: &Context,
    wanted: Option<&IdPrefix>,
) -> Result<ProjectId, CliError> {
    let projects = store.read(ctx, |r| r.projects().list())?;
    if let Some(prefix) = wanted {
        return Ok(prefix.resolve_project(&projects)?.id.clone());
    }
    let directory = app.directory()?;
    let found = ProjectLocation::find(&projects, directory).project;
    found.ok_or_else(|| CliError::NotInProject(directory.to_path_buf()))
}
