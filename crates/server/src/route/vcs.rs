//! What git says of a place: branch, changed files, patches.

use std::ffi::OsStr;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use turnstone_process::{Git, GitError};
use turnstone_store::Context;

use super::patch::{FilePatch, split};
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::Query;
use crate::place::Asked;

/// The lines around a change that are shown.
const CONTEXT: u32 = 3;
/// The most lines a client may ask for.
const MOST_CONTEXT: u32 = 100_000;
/// New files whose content is shown; of more, only the names.
const MOST_NEW: usize = 200;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/vcs", get(info))
        .route("/vcs/status", get(status))
        .route("/vcs/diff", get(diff))
        .route("/vcs/diff/raw", get(raw))
        .route("/file/status", get(file_status))
}

fn refused(error: impl std::borrow::Borrow<GitError>) -> ApiError {
    ApiError::unexpected(error.borrow())
}

impl App {
    /// `git` in the repository of a request; nothing where there is none.
    fn asked_git(&self, ctx: &Context, asked: &Asked) -> Result<Option<Git>, ApiError> {
        let Some(place) = self.find_place(ctx, &asked.directory)? else { return Ok(None) };
        let is_git = place.project.vcs.as_deref() == Some("git");
        Ok(is_git.then(|| self.engine().git(&place.root)))
    }
}

/// Which commit the files are compared with.
fn base(git: &Git, branch: bool) -> Result<Option<String>, GitError> {
    let head = git.find_commit("HEAD")?;
    let (true, Some(head)) = (branch, &head) else { return Ok(head) };
    let Some(name) = git.find_default_branch()? else { return Ok(Some(head.clone())) };
    for from in [format!("refs/remotes/origin/{name}"), format!("refs/heads/{name}")] {
        if let Some(commit) = git.find_commit(&from)? {
            return Ok(Some(git.find_merge_base(&commit, head)?.unwrap_or_else(|| head.clone())));
        }
    }
    Ok(Some(head.clone()))
}

/// Every file that differs, by name, those git does not know included.
fn patches(git: &Git, branch: bool, context: u32) -> Result<Vec<FilePatch>, ApiError> {
    let base = base(git, branch).map_err(refused)?;
    let tracked = git.diff_since(base.as_deref(), context).map_err(refused)?;
    let mut all = split(&String::from_utf8_lossy(&tracked));
    let changes = git.status().map_err(refused)?;
    let new = changes.iter().filter(|change| change.is_untracked());
    for (count, change) in new.enumerate() {
        let name = change.path.to_string_lossy().into_owned();
        if count >= MOST_NEW {
            all.push(FilePatch::unseen(name));
            continue;
        }
        let patch = git.diff_untracked(OsStr::new(&change.path), context).map_err(refused)?;
        match split(&String::from_utf8_lossy(&patch)).pop() {
            Some(patch) => all.push(FilePatch { file: name, ..patch }),
            // An empty file has nothing to show.
            None => all.push(FilePatch::unseen(name)),
        }
    }
    all.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(all)
}

/// `GET /vcs`
async fn info(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let Some(git) = app.asked_git(&ctx, &asked)? else { return Ok(Json(json!({}))) };
        let mut shown = Map::new();
        let branch = git.find_head_branch().map_err(refused)?;
        if let Some(branch) = branch {
            let name = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
            shown.insert("branch".to_owned(), Value::from(name));
        }
        if let Some(name) = git.find_default_branch().map_err(refused)? {
            shown.insert("default_branch".to_owned(), Value::from(name));
        }
        Ok(Json(Value::Object(shown)))
    })
    .await
}

/// `GET /vcs/status`
async fn status(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let Some(git) = app.asked_git(&ctx, &asked)? else { return Ok(Json(json!([]))) };
        let shown = patches(&git, false, 0)?.into_iter().map(|one| {
            json!({ "file": one.file, "additions": one.additions, "deletions": one.deletions,
                "status": one.status })
        });
        Ok(Json(shown.collect()))
    })
    .await
}

/// `GET /file/status`
async fn file_status(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let Some(git) = app.asked_git(&ctx, &asked)? else { return Ok(Json(json!([]))) };
        let shown = patches(&git, false, 0)?.into_iter().map(|one| {
            json!({ "path": one.file, "added": one.additions, "removed": one.deletions,
                "status": one.status })
        });
        Ok(Json(shown.collect()))
    })
    .await
}

/// `GET /vcs/diff`
async fn diff(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let branch = match query.need("mode")? {
        "git" => false,
        "branch" => true,
        other => return Err(query.refuse("mode", "\"git\" | \"branch\"", other)),
    };
    let context = match query.count("context")? {
        None => CONTEXT,
        Some(lines) => match u32::try_from(lines) {
            Ok(lines) if lines <= MOST_CONTEXT => lines,
            _ => {
                let got = lines.to_string();
                return Err(query.refuse("context", "a number up to 100000", &got));
            }
        },
    };
    app.blocking(move |app| {
        let Some(git) = app.asked_git(&ctx, &asked)? else { return Ok(Json(json!([]))) };
        let shown = patches(&git, branch, context)?.into_iter().map(|one| {
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
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Response, ApiError> {
    app.blocking(move |app| {
        let mut text = String::new();
        if let Some(git) = app.asked_git(&ctx, &asked)? {
            for patch in patches(&git, false, CONTEXT)?.into_iter().filter_map(|one| one.patch) {
                text.push_str(&patch);
            }
        }
        Ok(([(CONTENT_TYPE, "text/x-diff; charset=utf-8")], text).into_response())
    })
    .await
}
