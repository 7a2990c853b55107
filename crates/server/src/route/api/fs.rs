//! Files in the newer shape.

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::super::file::read_below;
use super::super::find::{answer, kind};
use super::location::with;
use crate::app::App;
use crate::beneath::{Below, Root};
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::Query;
use crate::place::Asked;
use crate::search::{NameQuery, find_names};

/// The most entries of one directory.
const MOST: usize = 20_000;
/// Names that are told unless the client says otherwise, and at most.
const NAMES: (usize, usize) = (50, 1_000);

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/api/fs/list", get(list))
        .route("/api/fs/find", get(find))
        .route("/api/fs/read/{*path}", get(read))
}

fn entry(path: &str, is_dir: bool) -> Value {
    json!({ "path": path, "type": if is_dir { "directory" } else { "file" } })
}

/// `GET /api/fs/list`
async fn list(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let path = Below::parse(query.get("path").unwrap_or_default())?;
    app.blocking(move |app| {
        let place = app.place(&ctx, &asked.directory)?;
        let entries = Root::open(&place.directory)?.list(&path, MOST)?;
        let shown = entries.iter().map(|one| {
            let slash = if one.is_dir { "/" } else { "" };
            let inner = path.as_path().join(&one.name);
            entry(&format!("{}{slash}", inner.display()), one.is_dir)
        });
        Ok(with(&place, shown.collect::<Vec<Value>>()))
    })
    .await
}

/// `GET /api/fs/find`
async fn find(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    query: Query,
) -> Result<Response, ApiError> {
    let text = query.need("query")?.to_owned();
    let only = kind(&query)?;
    let limit = query.count("limit")?.unwrap_or(NAMES.0);
    if limit > NAMES.1 {
        return Err(query.refuse("limit", "a number up to 1000", &limit.to_string()));
    }
    let wanted = NameQuery { text, only, limit };
    let place = app.blocking(move |app| app.place(&ctx, &asked.directory)).await?;
    let directory = place.directory.clone();
    let work = move |budget: &mut _| Ok(find_names(&directory, &wanted, budget)?);
    let (found, truncations) = app.work().searches.run(work).await?;
    let shown: Vec<Value> = found.iter().map(|(path, is_dir)| entry(path, *is_dir)).collect();
    let Json(mut body) = with(&place, shown);
    if !truncations.is_empty() {
        body["truncated"] = truncations.iter().map(|one| one.name()).collect();
    }
    Ok(answer(Json(body), &truncations))
}

/// `GET /api/fs/read/*`
async fn read(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let path = Below::parse(&path)?;
    app.blocking(move |app| {
        let place = app.place(&ctx, &asked.directory)?;
        let bytes = read_below(&place, &path)?;
        Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
    })
    .await
}
