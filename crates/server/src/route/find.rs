//! Search in a project: lines of files by an expression, files by a part of their name.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::empty_answers::EmptyList;
use crate::app::AppState;
use crate::error::ApiError;
use crate::file_search::{NameQuery, SearchTruncation, find_lines, find_names, parse_pattern};
use crate::project_directory::{ProjectDirectory, RequestedDirectory};
use crate::request_input::QueryParams;
use crate::request_scope::DirectoryRequest;

/// How many names are returned unless the client says otherwise.
const DEFAULT_NAMES: usize = 10;
/// The most names a client may ask for.
const MAX_NAMES: usize = 200;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/find", get(text))
        .route("/find/file", get(names))
        .route("/find/symbol", get(symbols))
}

/// The response of a search, with a header if it is not complete.
pub(super) fn search_response(body: impl Serialize, truncations: &[SearchTruncation]) -> Response {
    let mut response = Json(body).into_response();
    if let Some((name, value)) = SearchTruncation::header(truncations) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from(name.clone()));
        headers.insert(name, value);
    }
    response
}

/// `GET /find`
async fn text(request: DirectoryRequest, query: QueryParams) -> Result<Response, ApiError> {
    let regex = parse_pattern(query.require("pattern")?)?;
    let app = request.app.clone();
    let place = request.in_project(|_, _, place| Ok(place)).await?;
    let work = move |budget: &mut _| Ok(find_lines(&place.directory, &regex, budget)?);
    let (found, truncations) = app.in_flight().searches.run(work).await?;
    Ok(search_response(found, &truncations))
}

/// The files and directories of a project whose names match.
pub(super) async fn search_names(
    request: DirectoryRequest,
    wanted: NameQuery,
) -> Result<(ProjectDirectory, Vec<(String, bool)>, Vec<SearchTruncation>), ApiError> {
    let app = request.app.clone();
    let place = request.in_project(|_, _, place| Ok(place)).await?;
    let directory = place.directory.clone();
    let work = move |budget: &mut _| Ok(find_names(&directory, &wanted, budget)?);
    let (found, truncations) = app.in_flight().searches.run(work).await?;
    Ok((place, found, truncations))
}

/// Reads which kind of entry a client wants.
pub(super) fn entry_kind_param(query: &QueryParams) -> Result<Option<bool>, ApiError> {
    match query.get("type") {
        None => Ok(None),
        Some("file") => Ok(Some(false)),
        Some("directory") => Ok(Some(true)),
        Some(other) => Err(query.invalid_param("type", "\"file\" | \"directory\"", other)),
    }
}

/// `GET /find/file`
async fn names(request: DirectoryRequest, query: QueryParams) -> Result<Response, ApiError> {
    let text = query.require("query")?.to_owned();
    let dirs = query.get("dirs").is_none() || query.flag("dirs")?;
    let only = entry_kind_param(&query)?.or((!dirs).then_some(false));
    let limit = query.count("limit")?.unwrap_or(DEFAULT_NAMES);
    if !(1..=MAX_NAMES).contains(&limit) {
        let got = limit.to_string();
        return Err(query.invalid_param("limit", "a number from 1 to 200", &got));
    }
    let wanted = NameQuery { text, only, limit };
    let (_, found, truncations) = search_names(request, wanted).await?;
    let names: Vec<String> = found.into_iter().map(|(path, _)| path).collect();
    Ok(search_response(names, &truncations))
}

/// `GET /find/symbol`: there is no index of symbols, so none is found.
async fn symbols(
    _asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Json<EmptyList>, ApiError> {
    query.require("query")?;
    Ok(Json([]))
}
