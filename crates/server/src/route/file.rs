//! Files of a project: listed and read, never outside of it.

use std::path::Path;

use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::find::search_response;
use crate::app::AppState;
use crate::confined_path::{ConfinedPath, ConfinedPathError, ConfinedRoot};
use crate::error::ApiError;
use crate::file_search::{CompiledRules, RuleBudget, SearchTruncation, read_rules};
use crate::project_directory::ProjectDirectory;
use crate::request_input::QueryParams;
use crate::request_scope::DirectoryRequest;

/// The largest file that is shown.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The most entries of one directory.
const MAX_ENTRIES: usize = 20_000;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/file", get(list)).route("/file/content", get(read))
}

/// Whether an entry is a file or a directory.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NodeKind {
    /// Anything but a directory.
    File,
    /// A directory.
    Directory,
}

impl NodeKind {
    /// The kind of an entry.
    pub(super) const fn new(is_dir: bool) -> Self {
        if is_dir { Self::Directory } else { Self::File }
    }
}

/// An entry of a directory.
#[derive(Serialize)]
struct FileNode {
    name: String,
    path: String,
    absolute: String,
    #[serde(rename = "type")]
    kind: NodeKind,
    ignored: bool,
}

/// `GET /file`
async fn list(request: DirectoryRequest, query: QueryParams) -> Result<Response, ApiError> {
    let path = ConfinedPath::parse(query.require("path")?)?;
    request
        .in_project(move |_, _, place| {
            let root = ConfinedRoot::open(&place.directory)?;
            let entries = root.list(&path, MAX_ENTRIES)?;
            let mut budget = RuleBudget::default();
            let rules = ignore_rules(&place, &root, path.as_path(), &mut budget);
            let shown = entries.iter().map(|entry| {
                let inner = path.as_path().join(&entry.name);
                let slash = if entry.is_dir { "/" } else { "" };
                let ignored =
                    rules.matcher.matched_path_or_any_parents(&inner, entry.is_dir).is_ignore();
                FileNode {
                    path: format!("{}{slash}", inner.display()),
                    absolute: place.directory.join(&inner).to_string_lossy().into_owned(),
                    kind: NodeKind::new(entry.is_dir),
                    name: entry.name.clone(),
                    ignored,
                }
            });
            let left_out = budget.is_exceeded().then_some(SearchTruncation::IgnoreRules);
            Ok(search_response(shown.collect::<Vec<_>>(), left_out.as_slice()))
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

/// The content of a file: text, or bytes in base64.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum FileContent {
    Text {
        content: String,
    },
    #[serde(rename_all = "camelCase")]
    Binary {
        content: String,
        encoding: &'static str,
        mime_type: &'static str,
    },
}

/// `GET /file/content`
async fn read(
    request: DirectoryRequest,
    query: QueryParams,
) -> Result<Json<FileContent>, ApiError> {
    let path = ConfinedPath::parse(query.require("path")?)?;
    request
        .in_project(move |_, _, place| {
            let bytes = read_confined_file(&place, &path)?;
            Ok(Json(match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => {
                    FileContent::Text { content: text.trim().to_owned() }
                }
                Ok(text) => binary_content(&path, text.as_bytes()),
                Err(other) => binary_content(&path, other.as_bytes()),
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

fn binary_content(path: &ConfinedPath, bytes: &[u8]) -> FileContent {
    FileContent::Binary {
        content: STANDARD.encode(bytes),
        encoding: "base64",
        mime_type: media_type(path.as_path()),
    }
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
