//! Projects.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, patch};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::{Map, Value};
use turnstone_core::id::ProjectId;
use turnstone_core::model::Project;
use turnstone_core::wire;
use turnstone_engine::ProjectPatch;
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{
    RequestedDirectory, current_project, find_project_directory, open_project_directory,
};
use crate::request_input::{JsonBody, JsonFields};
use crate::request_scope::DirectoryRequest;
use crate::wire_json::StoredJson;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/project", get(list))
        .route("/project/current", get(current))
        .route("/project/{project}", patch(update))
        .route("/project/{project}/directories", get(directories))
}

fn unknown_project(id: &str) -> ApiError {
    ApiError::tagged(
        StatusCode::NOT_FOUND,
        "ProjectNotFoundError",
        &format!("Project not found: {id}"),
    )
    .with_field("projectID", id)
}

fn project_id(text: &str) -> Result<ProjectId, ApiError> {
    ProjectId::try_from(text.to_owned()).map_err(|_| unknown_project(text))
}

fn project_json(project: &Project) -> StoredJson {
    StoredJson(wire::project_info(project))
}

/// `GET /project`
async fn list(request: DirectoryRequest) -> Result<Json<Vec<StoredJson>>, ApiError> {
    request
        .run(|app, ctx, asked| {
            let place = find_project_directory(app, ctx, &asked.directory)?;
            let mut projects = app.engine().store().read(ctx, |r| r.projects().list())?;
            projects.retain(|project| project.removed.is_none());
            // As OpenCode: the project of the request is listed, even while it has no session.
            if let Some(place) = place {
                let here = current_project(app, ctx, &place)?;
                match projects.iter_mut().find(|project| project.id == here.id) {
                    Some(listed) => *listed = here,
                    None => projects.push(here),
                }
            }
            Ok(Json(projects.iter().map(project_json).collect()))
        })
        .await
}

/// `GET /project/current`
async fn current(request: DirectoryRequest) -> Result<Json<StoredJson>, ApiError> {
    request
        // The directory is cached for a while; the project is read again.
        .in_project(|app, ctx, place| Ok(Json(project_json(&current_project(app, ctx, &place)?))))
        .await
}

/// `PATCH /project/{projectID}`
async fn update(
    request: DirectoryRequest,
    Path(project): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<StoredJson>, ApiError> {
    let id = project_id(&project)?;
    let name = fields.text("name")?;
    let icon = read_text_table(&mut fields, "icon", &["url", "override", "color"])?;
    let commands = read_text_table(&mut fields, "commands", &["start"])?;
    request
        .run(move |app, ctx, asked| {
            store_derived_project(app, ctx, &asked, &id)?;
            let patch = ProjectPatch { name, icon, commands };
            Ok(Json(project_json(&app.engine().history().edits().patch_project(ctx, &id, patch)?)))
        })
        .await
}

/// The project of this id that the directory of a request would get.
fn find_derived_project(
    app: &AppState,
    ctx: &Context,
    asked: &RequestedDirectory,
    id: &ProjectId,
) -> Result<Option<Project>, ApiError> {
    let place = find_project_directory(app, ctx, &asked.directory)?;
    Ok(place.map(|place| place.project).filter(|project| project.id == *id))
}

/// Stores the project of this id if the directory of a request has it and nothing was stored yet.
fn store_derived_project(
    app: &AppState,
    ctx: &Context,
    asked: &RequestedDirectory,
    id: &ProjectId,
) -> Result<(), ApiError> {
    let stored = app.engine().store().read(ctx, |r| r.projects().find(id))?;
    if stored.is_none() && find_derived_project(app, ctx, asked, id)?.is_some() {
        open_project_directory(app, ctx, &asked.directory)?;
    }
    Ok(())
}

/// A table of texts, of which only these are kept.
fn read_text_table(
    fields: &mut JsonFields,
    key: &str,
    known: &[&str],
) -> Result<Option<Value>, ApiError> {
    let Some(mut inner) = fields.object(key)? else { return Ok(None) };
    let mut map = Map::new();
    for name in known {
        if let Some(text) = inner.text(name)? {
            map.insert((*name).to_owned(), Value::from(text));
        }
    }
    Ok(Some(Value::Object(map)))
}

/// A directory of a project.
#[derive(Serialize)]
struct ListedDirectory {
    directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<&'static str>,
}

/// `GET /project/{projectID}/directories`
async fn directories(
    request: DirectoryRequest,
    Path(project): Path<String>,
) -> Result<Json<Vec<ListedDirectory>>, ApiError> {
    let id = project_id(&project)?;
    request
        .run(move |app, ctx, asked| {
            let stored = app.engine().store().read(ctx, |r| r.projects().find(&id))?;
            let derived = || find_derived_project(app, ctx, &asked, &id);
            let project = stored.map_or_else(derived, |project| Ok(Some(project)))?;
            let project = project.ok_or_else(|| unknown_project(id.as_str()))?;
            let all = std::iter::once(&project.worktree).chain(&project.sandboxes);
            let listed = all.map(|directory| {
                let is_worktree = project.worktrees.iter().any(|one| one.directory == *directory);
                let strategy = is_worktree.then_some("git_worktree");
                ListedDirectory { directory: directory.clone(), strategy }
            });
            Ok(Json(listed.collect()))
        })
        .await
}
