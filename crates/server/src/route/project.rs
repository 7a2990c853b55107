//! Projects.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, patch};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use turnstone_core::id::ProjectId;
use turnstone_core::model::Project;
use turnstone_core::wire;
use turnstone_engine::ProjectPatch;
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody, JsonFields};

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

/// `GET /project`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let place = app.find_project_directory(&ctx, &asked.directory)?;
        let mut projects = app.engine().store().read(&ctx, |r| r.projects().list())?;
        projects.retain(|project| project.removed.is_none());
        // As OpenCode: the project of the request is listed, also while it has no session.
        if let Some(place) = place {
            let here = app.current_project(&ctx, &place)?;
            match projects.iter_mut().find(|project| project.id == here.id) {
                Some(listed) => *listed = here,
                None => projects.push(here),
            }
        }
        Ok(Json(projects.iter().map(wire::project_info).collect()))
    })
    .await
}

/// `GET /project/current`
async fn current(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        // The place is remembered for a while; what was said of the project meanwhile counts.
        Ok(Json(wire::project_info(&app.current_project(&ctx, &place)?)))
    })
    .await
}

/// `PATCH /project/{projectID}`
async fn update(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    Path(project): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = project_id(&project)?;
    let name = fields.text("name")?;
    let icon = read_text_table(&mut fields, "icon", &["url", "override", "color"])?;
    let commands = read_text_table(&mut fields, "commands", &["start"])?;
    app.run_blocking(move |app| {
        app.store_derived_project(&ctx, &asked, &id)?;
        let patch = ProjectPatch { name, icon, commands };
        Ok(Json(wire::project_info(
            &app.engine().history().edits().patch_project(&ctx, &id, patch)?,
        )))
    })
    .await
}

impl AppState {
    /// The project of this id that the directory of a request would get.
    fn find_derived_project(
        &self,
        ctx: &Context,
        asked: &RequestedDirectory,
        id: &ProjectId,
    ) -> Result<Option<Project>, ApiError> {
        let place = self.find_project_directory(ctx, &asked.directory)?;
        Ok(place.map(|place| place.project).filter(|project| project.id == *id))
    }

    /// Stores the project of this id if the directory of a request has it and nothing was stored yet.
    fn store_derived_project(
        &self,
        ctx: &Context,
        asked: &RequestedDirectory,
        id: &ProjectId,
    ) -> Result<(), ApiError> {
        let stored = self.engine().store().read(ctx, |r| r.projects().find(id))?;
        if stored.is_none() && self.find_derived_project(ctx, asked, id)?.is_some() {
            self.open_project_directory(ctx, &asked.directory)?;
        }
        Ok(())
    }
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

/// `GET /project/{projectID}/directories`
async fn directories(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    Path(project): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = project_id(&project)?;
    app.run_blocking(move |app| {
        let stored = app.engine().store().read(&ctx, |r| r.projects().find(&id))?;
        let derived = || app.find_derived_project(&ctx, &asked, &id);
        let project = stored.map_or_else(derived, |project| Ok(Some(project)))?;
        let project = project.ok_or_else(|| unknown_project(id.as_str()))?;
        let all = std::iter::once(&project.worktree).chain(&project.sandboxes);
        let shown = all.map(|directory| {
            let made = project.worktrees.iter().any(|one| one.directory == **directory);
            match made {
                true => json!({ "directory": directory, "strategy": "git_worktree" }),
                false => json!({ "directory": directory }),
            }
        });
        Ok(Json(shown.collect()))
    })
    .await
}
