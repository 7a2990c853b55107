//! Resolves the flag `--project [ID]`.

use turnstone_core::id::ProjectId;
use turnstone_engine::Engine;
use turnstone_store::Context;

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
    engine: &Engine,
    ctx: &Context,
    wanted: Option<&IdPrefix>,
) -> Result<ProjectId, CliError> {
    if let Some(prefix) = wanted {
        let projects = engine.store().read(ctx, |r| r.projects().list())?;
        return Ok(prefix.resolve_project(&projects)?.id.clone());
    }
    let directory = app.directory()?;
    let found = ProjectLocation::find(engine, ctx, directory)?.project;
    found.ok_or_else(|| CliError::NotInProject(directory.to_path_buf()))
}
