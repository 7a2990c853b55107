//! The location of a request: its directory and project.

use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use turnstone_core::id::ProjectId;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::ProjectDirectory;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/api/location", get(read))
}

/// A directory and the project it belongs to.
#[derive(Serialize)]
pub(super) struct Location {
    directory: String,
    project: LocationProject,
}

/// The project of a location.
#[derive(Serialize)]
struct LocationProject {
    id: ProjectId,
    directory: String,
}

impl Location {
    fn new(place: &ProjectDirectory) -> Self {
        Self {
            directory: place.directory.to_string_lossy().into_owned(),
            project: LocationProject {
                id: place.project.id.clone(),
                directory: place.root.to_string_lossy().into_owned(),
            },
        }
    }
}

/// Data with the location it is from.
#[derive(Serialize)]
pub(super) struct LocatedData<T> {
    location: Location,
    data: T,
}

impl<T> LocatedData<T> {
    /// `data` of a directory.
    pub(super) fn new(place: &ProjectDirectory, data: T) -> Self {
        Self { location: Location::new(place), data }
    }
}

/// Data without a location.
#[derive(Serialize)]
pub(super) struct DataResponse<T> {
    /// The data.
    pub(super) data: T,
}

/// `GET /api/location`
async fn read(request: DirectoryRequest) -> Result<Json<Location>, ApiError> {
    request.in_project(|_, _, place| Ok(Json(Location::new(&place)))).await
}
