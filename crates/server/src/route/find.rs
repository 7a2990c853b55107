//! Search in a project: lines of files by an expression, files by a part of their name.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::AppState;
use crate::error::ApiError;
use crate::file_search::{NameQuery, SearchTruncation, find_lines, find_names, parse_pattern};
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;
use crate::request_input::QueryParams;

/// Names that are told unless the client says otherwise.
const DEFAULT_NAMES: usize = 10;
/// The most names a client may ask for.
const MAX_NAMES: usize = 200;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/find", get(text))
        .route("/find/file", get(names))
        .route("/find/symbol", get(symbols))
}

/// The answer of a search, with a header if it is not complete.
pub(super) fn search_response(body: Json<Value>, truncations: &[SearchTruncation]) -> Response {
    let mut response = body.into_response();
    if let Some((name, value)) = SearchTruncation::header(truncations) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from(name.clone()));
        headers.insert(name, value);
    }
    response
}

/// `GET /find`
async fn text(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let regex = parse_pattern(query.require("pattern")?)?;
    let place =
        app.run_blocking(move |app| app.require_project_directory(&ctx, &asked.directory)).await?;
    let work = move |budget: &mut _| Ok(find_lines(&place.directory, &regex, budget)?);
    let (found, truncations) = app.in_flight().searches.run(work).await?;
    Ok(search_response(Json(Value::Array(found)), &truncations))
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
async fn names(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let text = query.require("query")?.to_owned();
    let dirs = query.get("dirs").is_none() || query.flag("dirs")?;
    let only = entry_kind_param(&query)?.or((!dirs).then_some(false));
    let limit = query.count("limit")?.unwrap_or(DEFAULT_NAMES);
    if !(1..=MAX_NAMES).contains(&limit) {
        let got = limit.to_string();
        return Err(query.invalid_param("limit", "a number from 1 to 200", &got));
    }
    let wanted = NameQuery { text, only, limit };
    let place =
        app.run_blocking(move |app| app.require_project_directory(&ctx, &asked.directory)).await?;
    let work = move |budget: &mut _| Ok(find_names(&place.directory, &wanted, budget)?);
    let (found, truncations) = app.in_flight().searches.run(work).await?;
    let names = found.into_iter().map(|(path, _)| Value::from(path)).collect();
    Ok(search_response(Json(names), &truncations))
}

/// `GET /find/symbol`: nothing here knows the symbols of a language.
async fn symbols(_asked: RequestedDirectory, query: QueryParams) -> Result<Json<Value>, ApiError> {
    query.require("query")?;
    Ok(Json(json!([])))
}
