//! Files of a project: listed and read, never outside of it.

use std::path::Path;

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::find::search_response;
use crate::app::AppState;
use crate::confined_path::{ConfinedPath, ConfinedPathError, ConfinedRoot};
use crate::error::ApiError;
use crate::file_search::{CompiledRules, RuleBudget, SearchTruncation, read_rules};
use crate::project_directory::{ProjectDirectory, RequestedDirectory};
use crate::request_context::RequestContext;
use crate::request_input::QueryParams;

/// The largest file that is shown.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The most entries of one directory.
const MAX_ENTRIES: usize = 20_000;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/file", get(list)).route("/file/content", get(read))
}

/// `GET /file`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let path = ConfinedPath::parse(query.require("path")?)?;
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        let root = ConfinedRoot::open(&place.directory)?;
        let entries = root.list(&path, MAX_ENTRIES)?;
        let mut budget = RuleBudget::default();
        let rules = ignore_rules(&place, &root, path.as_path(), &mut budget);
        let shown = entries.iter().map(|entry| {
            let inner = path.as_path().join(&entry.name);
            let slash = if entry.is_dir { "/" } else { "" };
            let ignored =
                rules.matcher.matched_path_or_any_parents(&inner, entry.is_dir).is_ignore();
            json!({
                "name": entry.name,
                "path": format!("{}{slash}", inner.display()),
                "absolute": place.directory.join(&inner).to_string_lossy(),
                "type": if entry.is_dir { "directory" } else { "file" },
                "ignored": ignored,
            })
        });
        let left_out = budget.is_exceeded().then_some(SearchTruncation::IgnoreRules);
        Ok(search_response(Json(shown.collect()), left_out.as_slice()))
    })
    .await
}

/// The ignore rules from the root of the place down to a directory.
fn ignore_rules(
    place: &ProjectDirectory,
    root: &ConfinedRoot,
    path: &Path,
    budget: &mut RuleBudget,
) -> CompiledRules {
    let mut levels: Vec<&Path> = path.ancestors().collect();
    levels.reverse();
    let names = |level: &Path| [".gitignore", ".ignore"].map(|name| level.join(name));
    let files = levels.into_iter().flat_map(names).map(|file| read_rules(root, &file));
    budget.compile(&place.directory, files)
}

/// `GET /file/content`
async fn read(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let path = ConfinedPath::parse(query.require("path")?)?;
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        let bytes = read_confined_file(&place, &path)?;
        Ok(Json(match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => {
                json!({ "type": "text", "content": text.trim() })
            }
            Ok(text) => binary_json(&path, text.as_bytes()),
            Err(other) => binary_json(&path, other.as_bytes()),
        }))
    })
    .await
}

/// The bytes of a file below the directory of a place.
pub(super) fn read_confined_file(
    place: &ProjectDirectory,
    path: &ConfinedPath,
) -> Result<Vec<u8>, ConfinedPathError> {
    ConfinedRoot::open(&place.directory)?.read(path, MAX_FILE_BYTES)
}

fn binary_json(path: &ConfinedPath, bytes: &[u8]) -> Value {
    json!({ "type": "binary", "content": STANDARD.encode(bytes), "encoding": "base64",
        "mimeType": media_type(path.as_path()) })
}

/// What a file is, by the end of its name.
pub(super) fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        "wasm" => "application/wasm",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        _ => "application/octet-stream",
    }
}
