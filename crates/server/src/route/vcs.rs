//! What git says of a place: branch, changed files, patches.

use std::path::PathBuf;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use turnstone_engine::{Git, GitError, GitStatusEntry, UntrackedFiles, read_git_position};
use turnstone_store::Context;

use super::git_patch::{FilePatch, split_patch};
use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;
use crate::request_input::QueryParams;

/// The lines around a change that the raw form shows.
const RAW_CONTEXT_LINES: u32 = 3;
/// The most lines a client may ask for; without a wish a file is shown whole.
const MAX_CONTEXT_LINES: u32 = 2_147_483_647;
/// New files whose content is shown; of more, only the names.
const MAX_NEW_FILES: usize = 200;
/// The bytes of all patches together; the patches from there on are empty.
const MAX_PATCH_BYTES: usize = 10_000_000;
/// The largest new file whose content is shown, as for files that git compares.
const LARGEST_NEW: u64 = 16 << 20;
/// The bytes of new files that are read for one answer; files from there on are named only.
const MOST_NEW_BYTES: u64 = 128 << 20;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/vcs", get(info))
        .route("/vcs/status", get(status))
        .route("/vcs/diff", get(diff))
        .route("/vcs/diff/raw", get(raw))
        .route("/file/status", get(file_status))
}

fn git_error(error: impl std::borrow::Borrow<GitError>) -> ApiError {
    error.borrow().into()
}

impl AppState {
    /// `git` in the repository of a request; nothing where there is none.
    fn requested_git(
        &self,
        ctx: &Context,
        asked: &RequestedDirectory,
    ) -> Result<Option<Git>, ApiError> {
        let Some(place) = self.find_project_directory(ctx, &asked.directory)? else {
            return Ok(None);
        };
        Ok(self.engine().projects().repositories().find(&place.root)?)
    }
}

/// The branch of the checkout. Small files say it; git is asked only where they do not.
fn head_branch(git: &Git) -> Result<Option<String>, GitError> {
    match read_git_position(&git.repository().worktree) {
        Some(point) if !point.unknown => Ok(point.branch),
        Some(_) | None => git.history().find_head_branch(),
    }
}

/// Where the branch of the checkout parted from the one its work goes back to; nothing on that one itself,
/// or if there is none.
fn merge_base_with_default(git: &Git) -> Result<Option<String>, GitError> {
    let (Some(head), Some(name)) =
        (git.history().find_commit("HEAD")?, git.history().find_default_branch()?)
    else {
        return Ok(None);
    };
    if git.history().find_head_branch()?.is_some_and(|on| on == format!("refs/heads/{name}")) {
        return Ok(None);
    }
    for from in [format!("refs/remotes/origin/{name}"), format!("refs/heads/{name}")] {
        if let Some(commit) = git.history().find_commit(&from)? {
            return git.history().find_merge_base(&commit, &head);
        }
    }
    Ok(None)
}

/// Every file `git` knows that differs from a commit.
fn tracked_patches(
    git: &Git,
    base: Option<&str>,
    context: u32,
) -> Result<Vec<FilePatch>, GitError> {
    match git.diff_since(base, context) {
        Ok(patch) => Ok(split_patch(&String::from_utf8_lossy(&patch))),
        // Too much to show is still to be named and counted.
        Err(GitError::TooMuch { .. }) => {
            Ok(git.diff_summary_since(base)?.iter().map(FilePatch::counted).collect())
        }
        Err(error) => Err(error),
    }
}

/// Every file that differs, by name, those git does not know included.
fn all_patches(git: &Git, base: Option<&str>, context: u32) -> Result<Vec<FilePatch>, ApiError> {
    let mut all = tracked_patches(git, base, context).map_err(git_error)?;
    let changes = git.status().map_err(git_error)?;
    let new = changes.into_iter().filter(GitStatusEntry::is_untracked).map(|change| change.path);
    all.extend(untracked(git, new.collect())?);
    all.sort_by(|a, b| a.file.cmp(&b.file));
    truncate_patches(&mut all, MAX_PATCH_BYTES);
    Ok(all)
}

/// The files git does not know, read by ourselves: git would follow links and wait for pipes.
fn untracked(git: &Git, mut paths: Vec<PathBuf>) -> Result<Vec<FilePatch>, ApiError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let names_by_sha1 = git.names_by_sha1().map_err(git_error)?;
    let worktree = &git.repository().worktree;
    let files = UntrackedFiles::open(worktree, names_by_sha1);
    let unopened = |source| GitError::Start { dir: worktree.clone(), source };
    let files = files.map_err(unopened).map_err(git_error)?;
    paths.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    let (mut unread, mut shown) = (MOST_NEW_BYTES, 0_usize);
    let patch_of = |(count, path): (usize, PathBuf)| {
        let name = path.to_string_lossy().into_owned();
        if count >= MAX_NEW_FILES {
            return FilePatch::without_patch(name);
        }
        match files.patch(&path, LARGEST_NEW.min(unread)) {
            Ok(made) => {
                unread = unread.saturating_sub(made.size as u64);
                shown = shown.saturating_add(made.patch.len());
                // Every file before this one is shown before it: this patch would be emptied later.
                let text = if shown > MAX_PATCH_BYTES { Vec::new() } else { made.patch };
                let patch = Some(String::from_utf8_lossy(&text).into_owned());
                FilePatch { patch, additions: made.additions, ..FilePatch::without_patch(name) }
            }
            // A repository of its own, a file too large, a special file, or one that has just gone: it
            // is named, and all others are shown.
            Err(error) => {
                tracing::debug!("{name} is named without a patch: {error}");
                FilePatch::without_patch(name)
            }
        }
    };
    Ok(paths.into_iter().enumerate().map(patch_of).collect())
}

/// Empties the patch that goes beyond `most` bytes in all, and those after it.
fn truncate_patches(all: &mut [FilePatch], most: usize) {
    let mut total = 0_usize;
    for patch in all.iter_mut().filter_map(|one| one.patch.as_mut()) {
        total = total.saturating_add(patch.len());
        if total > most {
            total = usize::MAX;
            patch.clear();
        }
    }
}

impl AppState {
    /// Every file that differs from the last commit, each as `show` shows it.
    fn changed_files(
        &self,
        ctx: &Context,
        asked: &RequestedDirectory,
        show: impl Fn(FilePatch) -> Value,
    ) -> Result<Json<Value>, ApiError> {
        let Some(git) = self.requested_git(ctx, asked)? else { return Ok(Json(json!([]))) };
        let head = git.history().find_commit("HEAD").map_err(git_error)?;
        Ok(Json(all_patches(&git, head.as_deref(), 0)?.into_iter().map(show).collect()))
    }
}

/// `GET /vcs`
async fn info(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    let directory = asked.directory.clone();
    app.reading_git(&directory, move |app| {
        let Some(git) = app.requested_git(&ctx, &asked)? else { return Ok(Json(json!({}))) };
        let mut shown = Map::new();
        if let Some(branch) = head_branch(&git).map_err(git_error)? {
            let name = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
            shown.insert("branch".to_owned(), Value::from(name));
        }
        match git.history().find_default_branch() {
            Ok(Some(name)) => drop(shown.insert("default_branch".to_owned(), Value::from(name))),
            // The branch is known without git.
            Ok(None) | Err(GitError::Missing | GitError::TooOld { .. }) => {}
            Err(error) => return Err(git_error(error)),
        }
        Ok(Json(Value::Object(shown)))
    })
    .await
}

/// `GET /vcs/status`
async fn status(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    let directory = asked.directory.clone();
    app.reading_git(&directory, move |app| {
        app.changed_files(&ctx, &asked, |one| {
            json!({ "file": one.file, "additions": one.additions, "deletions": one.deletions,
                "status": one.status })
        })
    })
    .await
}

/// `GET /file/status`
async fn file_status(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    let directory = asked.directory.clone();
    app.reading_git(&directory, move |app| {
        app.changed_files(&ctx, &asked, |one| {
            json!({ "path": one.file, "added": one.additions, "removed": one.deletions,
                "status": one.status })
        })
    })
    .await
}

/// `GET /vcs/diff`
async fn diff(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let branch = match query.require("mode")? {
        "git" => false,
        "branch" => true,
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
    let directory = asked.directory.clone();
    app.reading_git(&directory, move |app| {
        let Some(git) = app.requested_git(&ctx, &asked)? else { return Ok(Json(json!([]))) };
        let base =
            if branch { merge_base_with_default(&git) } else { git.history().find_commit("HEAD") };
        let base = base.map_err(git_error)?;
        if branch && base.is_none() {
            return Ok(Json(json!([])));
        }
        let shown = all_patches(&git, base.as_deref(), context)?.into_iter().map(|one| {
            let mut shown = json!({ "file": one.file, "additions": one.additions,
                "deletions": one.deletions, "status": one.status });
            if let Some(patch) = one.patch {
                shown["patch"] = Value::from(patch);
            }
            shown
        });
        Ok(Json(shown.collect()))
    })
    .await
}

/// `GET /vcs/diff/raw`
async fn raw(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Response, ApiError> {
    let directory = asked.directory.clone();
    app.reading_git(&directory, move |app| {
        let mut text = String::new();
        if let Some(git) = app.requested_git(&ctx, &asked)? {
            let head = git.history().find_commit("HEAD").map_err(git_error)?;
            let all = all_patches(&git, head.as_deref(), RAW_CONTEXT_LINES)?;
            all.into_iter().filter_map(|one| one.patch).for_each(|patch| text.push_str(&patch));
        }
        Ok(([(CONTENT_TYPE, "text/x-diff; charset=utf-8")], text).into_response())
    })
    .await
}
