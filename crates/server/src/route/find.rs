//! Search in a project: lines of files by an expression, files by a part of their name.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::Query;
use crate::place::Asked;
use crate::search::{NameQuery, Truncation, find_lines, find_names, parse_pattern};

/// Names that are told unless the client says otherwise.
const NAMES: usize = 10;
/// The most names a client may ask for.
const MOST_NAMES: usize = 200;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/find", get(text))
        .route("/find/file", get(names))
        .route("/find/symbol", get(symbols))
}

/// The answer of a search, with a header if it is not complete.
pub(super) fn answer(body: Json<Value>, truncations: &[Truncation]) -> Response {
    let mut response = body.into_response();
    if let Some((name, value)) = Truncation::header(truncations) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from(name.clone()));
        headers.insert(name, value);
    }
    response
}

/// `GET /find`
async fn text(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    query: Query,
) -> Result<Response, ApiError> {
    let regex = parse_pattern(query.need("pattern")?)?;
    let place = app.blocking(move |app| app.place(&ctx, &asked.directory)).await?;
    let work = move |budget: &mut _| Ok(find_lines(&place.directory, &regex, budget)?);
    let (found, truncations) = app.work().searches.run(work).await?;
    Ok(answer(Json(Value::Array(found)), &truncations))
}

/// Reads which kind of entry a client wants.
pub(super) fn kind(query: &Query) -> Result<Option<bool>, ApiError> {
    match query.get("type") {
        None => Ok(None),
        Some("file") => Ok(Some(false)),
        Some("directory") => Ok(Some(true)),
        Some(other) => Err(query.refuse("type", "\"file\" | \"directory\"", other)),
    }
}

/// `GET /find/file`
async fn names(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    query: Query,
) -> Result<Response, ApiError> {
    let text = query.need("query")?.to_owned();
    let dirs = query.get("dirs").is_none() || query.flag("dirs")?;
    let only = kind(&query)?.or((!dirs).then_some(false));
    let limit = query.count("limit")?.unwrap_or(NAMES);
    if !(1..=MOST_NAMES).contains(&limit) {
        let got = limit.to_string();
        return Err(query.refuse("limit", "a number from 1 to 200", &got));
    }
    let wanted = NameQuery { text, only, limit };
    let place = app.blocking(move |app| app.place(&ctx, &asked.directory)).await?;
    let work = move |budget: &mut _| Ok(find_names(&place.directory, &wanted, budget)?);
    let (found, truncations) = app.work().searches.run(work).await?;
    let names = found.into_iter().map(|(path, _)| Value::from(path)).collect();
    Ok(answer(Json(names), &truncations))
}

/// `GET /find/symbol`: nothing here knows the symbols of a language.
async fn symbols(_asked: Asked, query: Query) -> Result<Json<Value>, ApiError> {
    query.need("query")?;
    Ok(Json(json!([])))
}
