//! Files in the newer shape.

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::super::file::read_confined_file;
use super::super::find::{entry_kind_param, search_response};
use super::location::with_location;
use crate::app::AppState;
use crate::confined_path::{ConfinedPath, ConfinedRoot};
use crate::error::ApiError;
use crate::file_search::{NameQuery, find_names};
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;
use crate::request_input::QueryParams;

/// The most entries of one directory.
const MAX_ENTRIES: usize = 20_000;
/// Names that are told unless the client says otherwise, and at most.
const NAME_LIMITS: (usize, usize) = (50, 1_000);

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/fs/list", get(list))
        .route("/api/fs/find", get(find))
        .route("/api/fs/read/{*path}", get(read))
}

fn entry_json(path: &str, is_dir: bool) -> Value {
    json!({ "path": path, "type": if is_dir { "directory" } else { "file" } })
}

/// `GET /api/fs/list`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let path = ConfinedPath::parse(query.get("path").unwrap_or_default())?;
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        let entries = ConfinedRoot::open(&place.directory)?.list(&path, MAX_ENTRIES)?;
        let shown = entries.iter().map(|one| {
            let slash = if one.is_dir { "/" } else { "" };
            let inner = path.as_path().join(&one.name);
            entry_json(&format!("{}{slash}", inner.display()), one.is_dir)
        });
        Ok(with_location(&place, shown.collect::<Vec<Value>>()))
    })
    .await
}

/// `GET /api/fs/find`
async fn find(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let text = query.require("query")?.to_owned();
    let only = entry_kind_param(&query)?;
    let limit = query.count("limit")?.unwrap_or(NAME_LIMITS.0);
    if limit > NAME_LIMITS.1 {
        return Err(query.invalid_param("limit", "a number up to 1000", &limit.to_string()));
    }
    let wanted = NameQuery { text, only, limit };
    let place =
        app.run_blocking(move |app| app.require_project_directory(&ctx, &asked.directory)).await?;
    let directory = place.directory.clone();
    let work = move |budget: &mut _| Ok(find_names(&directory, &wanted, budget)?);
    let (found, truncations) = app.in_flight().searches.run(work).await?;
    let shown: Vec<Value> = found.iter().map(|(path, is_dir)| entry_json(path, *is_dir)).collect();
    let Json(mut body) = with_location(&place, shown);
    if !truncations.is_empty() {
        body["truncated"] = truncations.iter().map(|one| one.name()).collect();
    }
    Ok(search_response(Json(body), &truncations))
}

/// `GET /api/fs/read/*`
async fn read(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let path = ConfinedPath::parse(&path)?;
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        let bytes = read_confined_file(&place, &path)?;
        Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
    })
    .await
}
