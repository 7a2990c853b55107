//! What git reports about a directory: branch, changed files, patches.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use turnstone_engine::{DiffBase, FilePatch, GitError, RepositoryReader};

use crate::app::AppState;
use crate::error::ApiError;
use crate::git_pool::reading_git;
use crate::project_directory::find_project_directory;
use crate::request_input::QueryParams;
use crate::request_scope::DirectoryRequest;

/// The lines around a change that the raw form shows.
const RAW_CONTEXT_LINES: u32 = 3;
/// The most lines a client may ask for; without a wish a file is shown whole.
const MAX_CONTEXT_LINES: u32 = 2_147_483_647;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/vcs", get(info))
        .route("/vcs/status", get(status))
        .route("/vcs/diff", get(diff))
        .route("/vcs/diff/raw", get(raw))
        .route("/file/status", get(file_status))
}

/// Asks git about the repository of a request; the default where there is none.
async fn ask_git<T, F>(request: DirectoryRequest, work: F) -> Result<T, ApiError>
where
    T: Default + Send + 'static,
    F: FnOnce(&RepositoryReader) -> Result<T, GitError> + Send + 'static,
{
    let DirectoryRequest { app, ctx, asked } = request;
    let directory = asked.directory.clone();
    reading_git(&app, &directory, move |app| {
        let Some(place) = find_project_directory(app, &ctx, &asked.directory)? else {
            return Ok(T::default());
        };
        match app.engine().projects().repositories().find_reader(&place.root)? {
            Some(repository) => work(&repository).map_err(|error| ApiError::from(&error)),
            None => Ok(T::default()),
        }
    })
    .await
}

/// Every file that differs from the last commit.
async fn changed_files(request: DirectoryRequest) -> Result<Vec<FilePatch>, ApiError> {
    ask_git(request, |repository| repository.changed_files(DiffBase::Head, 0)).await
}

/// The branch of the checkout, and the one its work goes back to.
#[derive(Serialize)]
struct VcsInfo {
    branch: Option<String>,
    default_branch: Option<String>,
}

/// `GET /vcs`
async fn info(request: DirectoryRequest) -> Result<Json<VcsInfo>, ApiError> {
    let branches = ask_git(request, RepositoryReader::branches).await?;
    Ok(Json(VcsInfo { branch: branches.current, default_branch: branches.default }))
}

/// A changed file of `/vcs/status` and `/vcs/diff`.
#[derive(Serialize)]
struct VcsFileDiff {
    file: String,
    additions: usize,
    deletions: usize,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
}

impl From<FilePatch> for VcsFileDiff {
    fn from(one: FilePatch) -> Self {
        let FilePatch { file, patch, additions, deletions, status } = one;
        Self { file, additions, deletions, status, patch }
    }
}

/// `GET /vcs/status`
async fn status(request: DirectoryRequest) -> Result<Json<Vec<VcsFileDiff>>, ApiError> {
    let files = changed_files(request).await?.into_iter();
    Ok(Json(files.map(|one| VcsFileDiff { patch: None, ..one.into() }).collect()))
}

/// A changed file of `/file/status`.
#[derive(Serialize)]
struct FileStatus {
    path: String,
    added: usize,
    removed: usize,
    status: &'static str,
}

/// `GET /file/status`
async fn file_status(request: DirectoryRequest) -> Result<Json<Vec<FileStatus>>, ApiError> {
    let files = changed_files(request).await?.into_iter().map(|one| FileStatus {
        path: one.file,
        added: one.additions,
        removed: one.deletions,
        status: one.status,
    });
    Ok(Json(files.collect()))
}

/// `GET /vcs/diff`
async fn diff(
    request: DirectoryRequest,
    query: QueryParams,
) -> Result<Json<Vec<VcsFileDiff>>, ApiError> {
    let base = match query.require("mode")? {
        "git" => DiffBase::Head,
        "branch" => DiffBase::MergeBase,
        other => return Err(query.invalid_param("mode", "\"git\" | \"branch\"", other)),
    };
    let context = match query.count("context")?.map(|lines| (lines, u32::try_from(lines))) {
        None => MAX_CONTEXT_LINES,
        Some((_, Ok(lines))) if lines <= MAX_CONTEXT_LINES => lines,
        Some((lines, _)) => {
            return Err(query.invalid_param(
                "context",
                "a number up to 2147483647",
                &lines.to_string(),
            ));
        }
    };
    let patches = ask_git(request, move |repository| repository.changed_files(base, context));
    Ok(Json(patches.await?.into_iter().map(VcsFileDiff::from).collect()))
}

/// `GET /vcs/diff/raw`
async fn raw(request: DirectoryRequest) -> Result<Response, ApiError> {
    let text = ask_git(request, |repository| {
        let all = repository.changed_files(DiffBase::Head, RAW_CONTEXT_LINES)?;
        Ok(all.into_iter().filter_map(|one| one.patch).collect::<String>())
    });
    Ok(([(CONTENT_TYPE, "text/x-diff; charset=utf-8")], text.await?).into_response())
}
