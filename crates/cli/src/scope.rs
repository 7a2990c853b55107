//! Scopes: which project a `--project [ID]` means.

use turnstone_core::id::ProjectId;
use turnstone_store::{Context, Store};

use crate::app::App;
use crate::error::CliError;
use crate::place::Place;
use crate::reference::Prefix;

/// The project of the flag: the one with this id, or the one the program was started in.
///
/// # Errors
///
/// [`CliError::NotInProject`], or what [`Prefix::project`] answers.
pub(crate) fn project(
    app: &App,
    store: &Store,
    ctx: &Context,
    wanted: Option<&Prefix>,
) -> Result<ProjectId, CliError> {
    let projects = store.read(ctx, |r| r.projects())?;
    if let Some(prefix) = wanted {
        return Ok(prefix.project(&projects)?.id.clone());
    }
    let directory = app.directory()?;
    let found = Place::find(&projects, directory).project;
    found.ok_or_else(|| CliError::NotInProject(directory.to_path_buf()))
}
