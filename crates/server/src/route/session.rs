//! Sessions: created, listed, changed, deleted.

use std::ffi::OsStr;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::routing::get;
use axum::{Json, Router};
use turnstone_core::id::{SessionId, WorkspaceId};
use turnstone_core::model::{SessionUsage, Todo};
use turnstone_core::permission::CallerRole;
use turnstone_core::wire;
use turnstone_engine::{NewSession, RetainedCopies, SessionPatch};
use turnstone_store::{SessionFilter, SessionRow};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{
    RequestedDirectory, find_project_directory, open_project_directory,
};
use crate::request_context::RetryAwareContext;
use crate::request_input::{
    JsonBody, JsonFields, OptionalJsonBody, QueryParams, format_js_number, parse_js_number,
    parse_path_id,
};
use crate::request_scope::{DirectoryRequest, SessionRequest};
use crate::rule_setter::{check_can_set_rules, is_in_charge};
use crate::runner_registry::check_session_reach;
use crate::session_revert::session_created_at;
use crate::wire_json::{
    JsonTextResponse, StoredJson, json_text_response, session_json, session_list_json,
    sessions_json,
};

/// How many sessions are listed unless the client says otherwise.
const DEFAULT_LIMIT: usize = 100;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session", get(list).post(create))
        .route("/session/{session}", get(read).patch(update).delete(remove))
        .route("/session/{session}/children", get(children))
        .route("/session/{session}/todo", get(todos))
}

/// The session a path names.
pub(super) fn session_id(text: &str) -> Result<SessionId, ApiError> {
    parse_path_id("sessionID", "ses", text)
}

/// `GET /session`
async fn list(request: DirectoryRequest, query: QueryParams) -> Result<JsonTextResponse, ApiError> {
    let roots = query.flag("roots")?;
    let limit = read_list_limit(&query)?;
    match query.find_single("scope")? {
        None | Some("project") => {}
        Some(other) => return Err(query.invalid_param("scope", "\"project\"", other)),
    }
    for key in ["path", "start", "search", "actor"] {
        query.find_single(key)?;
    }
    request
        .run(move |app, ctx, asked| {
            let Some(place) = find_project_directory(app, ctx, &asked.directory)? else {
                return Ok(json_text_response("[]".to_owned()));
            };
            // A runner sees no session outside of its directory.
            let is_runner = ctx.role == CallerRole::Runner;
            let path = query.non_empty("path").filter(|_| !is_runner).map(str::to_owned);
            let is_wide = path.is_some() || query.get("scope") == Some("project");
            let narrow = is_runner || (asked.by_query && !is_wide);
            let here = || place.directory.to_string_lossy().into_owned();
            let filter = SessionFilter {
                directory: narrow.then(here),
                // A session that was stored without a path is found by its directory.
                pathless: (asked.by_query && path.is_some()).then(here),
                project: Some(place.project.id),
                path,
                roots,
                start: query.non_empty("start").and_then(|text| text.parse().ok()),
                search: query.non_empty("search").map(str::to_owned),
                archived: true,
                actor: query.non_empty("actor").map(str::to_owned),
            };
            Ok(json_text_response(session_list_json(app, ctx, &filter, limit)?))
        })
        .await
}

/// How many sessions a list may have. As in JavaScript no text is zero; a text that is no number, or a
/// negative number, counts as left out.
fn read_list_limit(query: &QueryParams) -> Result<usize, ApiError> {
    let Some(text) = query.find_single("limit")?.map(str::trim) else { return Ok(DEFAULT_LIMIT) };
    if text.is_empty() {
        return Ok(0);
    }
    let number = parse_js_number(text);
    match text.parse::<usize>() {
        Ok(limit) => Ok(limit),
        Err(_) if !number.is_nan() && number.fract() != 0.0 => {
            let got = format_js_number(number);
            Err(ApiError::invalid_query(format!(
                "Expected an integer, got {got}\n  at [\"limit\"]"
            )))
        }
        Err(_) => Ok(DEFAULT_LIMIT),
    }
}

/// Reads the fields of a new session.
fn read_new_session(mut fields: JsonFields) -> Result<NewSession, ApiError> {
    if let Some(workspace) = fields.id::<WorkspaceId>("workspaceID", "wrk")? {
        return Err(ApiError::NotFound(format!("Workspace not found: {workspace}")));
    }
    Ok(NewSession {
        title: fields.text("title")?,
        parent: fields.id("parentID", "ses")?,
        agent: fields.text("agent")?,
        model: fields.read("model", "{ id, providerID, variant }")?,
        metadata: fields.read("metadata", "object")?,
        permission: fields.read("permission", "PermissionRuleset")?,
    })
}

/// `POST /session`
async fn create(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    asked: RequestedDirectory,
    OptionalJsonBody(fields): OptionalJsonBody,
) -> Result<Json<StoredJson>, ApiError> {
    let new = read_new_session(fields)?;
    app.run_blocking(move |app| {
        if let Some(made) = began.map(|at| session_created_at(app, &ctx, at)).transpose()?.flatten()
        {
            return Ok(Json(session_json(app, &ctx, &made.id)?));
        }
        if let Some(parent) = new.parent.as_ref().filter(|_| ctx.role == CallerRole::Runner) {
            check_session_reach(app, &ctx, parent)?;
        }
        check_can_set_rules(app, &ctx, None, new.permission.as_deref().unwrap_or_default())?;
        let place = open_project_directory(app, &ctx, &asked.directory)?;
        let (project, root) = (&place.project.id, &place.root);
        let engine = app.engine();
        let made =
            engine.projects().create_session_in(&ctx, project, root, &place.directory, &new)?;
        app.watch_directory(&place.directory);
        Ok(Json(StoredJson(wire::session_info(&made, SessionUsage::default()))))
    })
    .await
}

/// `GET /session/{sessionID}`
pub(super) async fn read(request: SessionRequest) -> Result<Json<StoredJson>, ApiError> {
    request.run(|app, ctx, id| Ok(Json(session_json(app, ctx, id)?))).await
}

/// Reads the fields of a session that a client changes.
fn read_session_patch(fields: &mut JsonFields) -> Result<SessionPatch, ApiError> {
    let title = fields.text("title")?;
    let metadata = fields.read("metadata", "object")?;
    let added_rules = fields.read("permission", "PermissionRuleset")?;
    let time = fields.object("time")?;
    let archived = time.map(|mut time| time.read("archived", "number")).transpose()?.flatten();
    Ok(SessionPatch { title, archived, metadata, added_rules, ..SessionPatch::default() })
}

/// `PATCH /session/{sessionID}`
async fn update(
    request: SessionRequest<RetryAwareContext>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<StoredJson>, ApiError> {
    let patch = read_session_patch(&mut fields)?;
    request
        .run(move |app, ctx, began, id| {
            // One transaction: if an earlier try began, it is done.
            if began.is_some() {
                return Ok(Json(session_json(app, ctx, id)?));
            }
            if patch.archived.is_some() && !is_in_charge(app, ctx, id)? {
                // The undo of archived sessions is the first to expire.
                let message = "only a person, or the client that created a session, archives it";
                return Err(ApiError::not_for_runners(message));
            }
            let added_rules = patch.added_rules.as_deref().unwrap_or_default();
            check_can_set_rules(app, ctx, Some(id), added_rules)?;
            app.engine().history().edits().patch_session(ctx, id, patch)?;
            Ok(Json(session_json(app, ctx, id)?))
        })
        .await
}

/// `DELETE /session/{sessionID}`
async fn remove(
    request: SessionRequest,
    query: QueryParams,
) -> Result<(HeaderMap, Json<bool>), ApiError> {
    let waits = query.get("wait") == Some("") || query.flag("wait")?;
    request
        .run(move |app, ctx, id| {
            let deleted = app.engine().projects().delete_session(ctx, id)?.sessions;
            let mut headers = HeaderMap::new();
            if waits {
                let erasure = app.engine().maintenance().session_eraser();
                erasure.finish_deletions(ctx).map_err(|error| {
                    app.in_flight().deletion_signal.notify_one();
                    ApiError::erasure_pending(id, &error)
                })?;
                let copies = erasure.find_retained_copies(ctx, &deleted)?;
                headers.extend(retained_copies_header(&copies));
            } else {
                app.in_flight().deletion_signal.notify_one();
            }
            Ok((headers, Json(true)))
        })
        .await
}

/// Names the copies that a deletion leaves; no header if there are none. What is not plain ASCII in the name
/// of a backup is percent-encoded, as in a URL.
fn retained_copies_header(copies: &RetainedCopies) -> Option<(HeaderName, HeaderValue)> {
    let forks = copies.forks.iter().map(|fork| format!("fork {fork}"));
    let names = copies.backups.iter().filter_map(|path| path.file_name());
    let backups = names.map(|name| format!("backup {}", encode_name(name)));
    let shares = copies.shares.iter().map(|url| format!("share {url}"));
    let named: Vec<String> = forks.chain(backups).chain(shares).collect();
    let value = HeaderValue::from_str(&named.join(", ")).ok().filter(|_| !named.is_empty());
    value.map(|value| (HeaderName::from_static("x-turnstone-kept"), value))
}

fn encode_name(name: &OsStr) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: &u8| match plain(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.as_encoded_bytes().iter().map(encode).collect()
}

/// `GET /session/{sessionID}/children`
async fn children(request: SessionRequest) -> Result<Json<Vec<StoredJson>>, ApiError> {
    request
        .run(|app, ctx, id| {
            let children = sessions_json(app, ctx, |r| {
                r.sessions().get(id)?;
                let children = r.sessions().children(id)?.into_iter();
                children
                    .map(|session| {
                        Ok(SessionRow { usage: r.sessions().usage(&session.id)?, session })
                    })
                    .collect()
            })?;
            Ok(Json(children))
        })
        .await
}

/// `GET /session/{sessionID}/todo`
async fn todos(request: SessionRequest) -> Result<Json<Vec<Todo>>, ApiError> {
    request
        .run(|app, ctx, id| Ok(Json(app.engine().store().read(ctx, |r| r.sessions().todos(id))?)))
        .await
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn copies_with_odd_names_are_named() {
        let name = |bytes: &[u8]| std::path::Path::new("/b").join(OsStr::from_bytes(bytes));
        let names: [&[u8]; 4] = [b"plain-1.db", "\u{e4} b".as_bytes(), b"line\nbreak, x", b"\xff%"];
        let copies = RetainedCopies {
            backups: names.into_iter().map(name).collect(),
            ..RetainedCopies::default()
        };
        let (_, value) = retained_copies_header(&copies).expect("a header");
        assert_eq!(
            value.to_str().expect("text"),
            "backup plain-1.db, backup %C3%A4%20b, backup line%0Abreak%2C%20x, backup %FF%25"
        );
        assert!(retained_copies_header(&RetainedCopies::default()).is_none());
    }
}
