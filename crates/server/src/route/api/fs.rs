//! Files in the newer shape.

use axum::Json;
use axum::Router;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;

use super::super::file::{NodeKind, read_confined_file};
use super::super::find::{entry_kind_param, search_names, search_response};
use super::location::LocatedData;
use crate::app::AppState;
use crate::confined_path::{ConfinedPath, ConfinedRoot};
use crate::error::ApiError;
use crate::file_search::NameQuery;
use crate::request_input::QueryParams;
use crate::request_scope::DirectoryRequest;

/// The most entries of one directory.
const MAX_ENTRIES: usize = 20_000;
/// How many names are returned unless the client says otherwise, and at most.
const NAME_LIMITS: (usize, usize) = (50, 1_000);

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/fs/list", get(list))
        .route("/api/fs/find", get(find))
        .route("/api/fs/read/{*path}", get(read))
}

/// A file or a directory.
#[derive(Serialize)]
struct FsEntry {
    path: String,
    #[serde(rename = "type")]
    kind: NodeKind,
}

/// `GET /api/fs/list`
async fn list(
    request: DirectoryRequest,
    query: QueryParams,
) -> Result<Json<LocatedData<Vec<FsEntry>>>, ApiError> {
    let path = ConfinedPath::parse(query.get("path").unwrap_or_default())?;
    request
        .in_project(move |_, _, place| {
            let entries = ConfinedRoot::open(&place.directory)?.list(&path, MAX_ENTRIES)?;
            let entries = entries.iter().map(|one| {
                let slash = if one.is_dir { "/" } else { "" };
                let inner = path.as_path().join(&one.name);
                let path = format!("{}{slash}", inner.display());
                FsEntry { path, kind: NodeKind::new(one.is_dir) }
            });
            Ok(Json(LocatedData::new(&place, entries.collect())))
        })
        .await
}

/// Names that were found.
#[derive(Serialize)]
struct FindResponse {
    #[serde(flatten)]
    found: LocatedData<Vec<FsEntry>>,
    /// Why the search is not complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    truncated: Vec<&'static str>,
}

/// `GET /api/fs/find`
async fn find(request: DirectoryRequest, query: QueryParams) -> Result<Response, ApiError> {
    let text = query.require("query")?.to_owned();
    let only = entry_kind_param(&query)?;
    let limit = query.count("limit")?.unwrap_or(NAME_LIMITS.0);
    if limit > NAME_LIMITS.1 {
        return Err(query.invalid_param("limit", "a number up to 1000", &limit.to_string()));
    }
    let wanted = NameQuery { text, only, limit };
    let (place, found, truncations) = search_names(request, wanted).await?;
    let entry = |(path, is_dir)| FsEntry { path, kind: NodeKind::new(is_dir) };
    let body = FindResponse {
        found: LocatedData::new(&place, found.into_iter().map(entry).collect()),
        truncated: truncations.iter().map(|one| one.name()).collect(),
    };
    Ok(search_response(body, &truncations))
}

/// `GET /api/fs/read/*`
async fn read(request: DirectoryRequest, Path(path): Path<String>) -> Result<Response, ApiError> {
    let path = ConfinedPath::parse(&path)?;
    request
        .in_project(move |_, _, place| {
            let bytes = read_confined_file(&place, &path)?;
            Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
        })
        .await
}
