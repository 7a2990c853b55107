//! Who may call which route, and how far a runner reaches.
//!
//! One table names every route that changes something; one that is not in it is for the person alone. Another
//! names what runners may read; what is not in it, and not about one session, is closed to them. This decides
//! by role only: operations that undo or delete also pass the gates of the engine, and the calls of a turn need
//! its lease.

use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use turnstone_core::id::SessionId;
use turnstone_core::permission::CallerRole;
use turnstone_store::BlobHash;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::{self, RequestContext, RequestDigest};
use crate::request_input::read_body;
use crate::runner_registry::{check_runner_directory, check_session_reach};

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Runners too, in the directory they registered for.
    Runners,
    /// The person and named actors.
    Clients,
    /// The person: it concerns all sessions, the whole server, or what others see as the person's act.
    Person,
}

use Access::{Clients, Person, Runners};

/// Every route that changes something, except the calls of a turn that are a `POST`.
const CHANGES: &[(&str, &str, Access)] = &[
    ("POST", "/session", Runners),
    ("PATCH", "/session/{session}", Runners),
    ("DELETE", "/session/{session}", Runners),
    ("POST", "/session/{session}/revert", Runners),
    ("POST", "/session/{session}/unrevert", Runners),
    ("POST", "/session/{session}/abort", Clients),
    ("POST", "/session/{session}/command", Clients),
    ("POST", "/session/{session}/fork", Clients),
    ("POST", "/session/{session}/init", Clients),
    ("POST", "/session/{session}/message", Clients),
    ("DELETE", "/session/{session}/message/{message}", Clients),
    ("PATCH", "/session/{session}/message/{message}/part/{part}", Clients),
    ("DELETE", "/session/{session}/message/{message}/part/{part}", Clients),
    ("POST", "/session/{session}/permissions/{request}", Clients),
    ("POST", "/session/{session}/prompt_async", Clients),
    ("POST", "/session/{session}/share", Clients),
    ("DELETE", "/session/{session}/share", Clients),
    ("POST", "/session/{session}/shell", Clients),
    ("POST", "/session/{session}/summarize", Clients),
    ("POST", "/permission/{request}/reply", Clients),
    ("POST", "/question/{request}/reply", Clients),
    ("POST", "/question/{request}/reject", Clients),
    ("POST", "/log", Runners),
    ("POST", "/sync/history", Clients),
    ("POST", "/sync/start", Clients),
    ("POST", "/sync/replay", Person),
    ("POST", "/sync/steal", Person),
    ("PATCH", "/project/{project}", Person),
    ("POST", "/experimental/worktree", Clients),
    ("DELETE", "/experimental/worktree", Clients),
    ("POST", "/experimental/worktree/reset", Clients),
    ("POST", "/instance/dispose", Person),
    ("POST", "/global/dispose", Person),
    ("POST", "/tui/append-prompt", Person),
    ("POST", "/tui/open-help", Person),
    ("POST", "/tui/open-sessions", Person),
    ("POST", "/tui/open-themes", Person),
    ("POST", "/tui/open-models", Person),
    ("POST", "/tui/submit-prompt", Person),
    ("POST", "/tui/clear-prompt", Person),
    ("POST", "/tui/execute-command", Person),
    ("POST", "/tui/show-toast", Person),
    ("POST", "/tui/publish", Person),
    ("POST", "/tui/select-session", Person),
    ("POST", "/pty", Person),
    ("PUT", "/pty/{pty}", Person),
    ("DELETE", "/pty/{pty}", Person),
    ("POST", "/pty/{pty}/connect-token", Person),
    ("POST", "/api/pty", Person),
    ("PUT", "/api/pty/{pty}", Person),
    ("DELETE", "/api/pty/{pty}", Person),
    ("POST", "/api/pty/{pty}/connect-token", Person),
    ("POST", "/api/session", Clients),
    ("POST", "/api/session/{session}/prompt", Clients),
    ("POST", "/api/session/{session}/compact", Clients),
    ("POST", "/api/session/{session}/agent", Clients),
    ("POST", "/api/session/{session}/model", Clients),
    ("POST", "/api/session/{session}/interrupt", Clients),
    ("POST", "/api/session/{session}/wait", Clients),
    ("POST", "/api/session/{session}/revert/stage", Runners),
    ("POST", "/api/session/{session}/revert/clear", Runners),
    ("POST", "/api/session/{session}/revert/commit", Clients),
    ("POST", "/api/session/{session}/permission", Runners),
    ("POST", "/api/session/{session}/permission/{request}/reply", Clients),
    ("POST", "/api/session/{session}/question/{request}/reply", Clients),
    ("POST", "/api/session/{session}/question/{request}/reject", Clients),
    ("DELETE", "/api/permission/saved/{id}", Person),
    ("POST", "/turnstone/runner", Clients),
    ("DELETE", "/turnstone/runner/{runner}", Runners),
    ("POST", "/turnstone/session/{session}/turn", Runners),
    ("POST", "/turnstone/session/{session}/resume", Runners),
    ("PUT", "/turnstone/session/{session}/turn/{turn}/todo", Runners),
    ("PUT", "/turnstone/session/{session}/turn/{turn}/title", Runners),
    ("PUT", "/turnstone/session/{session}/turn/{turn}/summary", Runners),
    ("PUT", "/turnstone/session/{session}/turn/{turn}/step/{message}/usage", Runners),
    ("DELETE", "/turnstone/session/{session}/turn/{turn}/retry", Runners),
    ("DELETE", "/turnstone/session/{session}/turn/{turn}/file/lock", Runners),
    ("POST", "/turnstone/session/{session}/undo", Runners),
    ("POST", "/turnstone/session/{session}/redo", Runners),
    ("POST", "/turnstone/session/{session}/jump", Runners),
    ("POST", "/turnstone/session/{session}/checkpoint", Runners),
    ("DELETE", "/turnstone/session/{session}/checkpoint/{name}", Runners),
];

/// What runners may read in their directory and below it, apart from their sessions.
const READS_IN_DIRECTORY: &[&str] = &[
    "/agent",
    "/api/agent",
    "/api/command",
    "/api/fs/find",
    "/api/fs/list",
    "/api/fs/read/{*path}",
    "/api/location",
    "/api/model",
    "/api/provider",
    "/api/provider/{provider}",
    "/command",
    "/config",
    "/config/providers",
    "/file",
    "/file/content",
    "/file/status",
    "/find",
    "/find/file",
    "/find/symbol",
    "/path",
    "/permission",
    "/project/current",
    "/provider",
    "/provider/auth",
    "/question",
    "/session",
    "/session/status",
    "/vcs",
    "/vcs/diff",
    "/vcs/diff/raw",
    "/vcs/status",
];

/// What runners may read that concerns neither a session nor a directory. Of the inboxes, each reads its own.
const READS_WITHOUT_PLACE: &[&str] = &[
    "/api/health",
    "/doc",
    "/global/health",
    "/turnstone/runner/{runner}/inbox",
    "/turnstone/server",
];

/// Reads for the person alone: what is typed into a terminal is done as the person.
const PERSON_ONLY_READS: [&str; 2] = ["/pty/{pty}/connect", "/api/pty/{pty}/connect"];

/// The calls of a turn.
const OF_A_TURN: &str = "/turnstone/session/{session}/turn/{turn}/";

/// Changes that concern neither a session nor a directory.
const WITHOUT_PLACE: [&str; 2] = ["/log", "/turnstone/runner/{runner}"];

/// Lets requests through to what is open to their role; those of runners only within their directory.
pub(crate) async fn restrict(
    State(app): State<AppState>,
    names: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let names = names.ok();
    match check(&app, names.as_ref(), request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn check(
    app: &AppState,
    names: Option<&RawPathParams>,
    request: Request,
) -> Result<Request, ApiError> {
    let headers = request.headers();
    if !request_context::NARROWING.iter().any(|name| headers.contains_key(*name)) {
        return Ok(request);
    }
    let RequestContext(ctx) = RequestContext::from_headers(headers, app)?;
    // A path without a route is answered as one by the router.
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(route) = route.filter(|_| ctx.role != CallerRole::Person) else { return Ok(request) };
    check_role(ctx.role, request.method(), &route)?;
    let request = match reads(request.method()) || route.starts_with(OF_A_TURN) {
        true => request,
        false => with_digest(app, request).await?,
    };
    if ctx.role != CallerRole::Runner {
        return Ok(request);
    }
    let session = names.and_then(|names| names.iter().find(|(name, _)| *name == "session"));
    if let Some((_, session)) = session {
        // What is no id is refused by the handler.
        if let Ok(id) = session.parse::<SessionId>() {
            app.run_blocking(move |app| check_session_reach(app, &ctx, &id)).await?;
        }
        return Ok(request);
    }
    let without_place =
        if reads(request.method()) { READS_WITHOUT_PLACE } else { &WITHOUT_PLACE[..] };
    if without_place.contains(&route.as_str()) {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    let asked = RequestedDirectory::from_request_parts(&mut parts, app).await?;
    // Whether a directory outside of its reach exists is not for a runner to know.
    app.run_blocking(move |app| check_runner_directory(app, &ctx, &asked.directory)).await?;
    Ok(Request::from_parts(parts, body))
}

/// Adds a digest of what a request asks for: if a person has to allow it, the answer is for this alone.
async fn with_digest(app: &AppState, request: Request) -> Result<Request, ApiError> {
    let (mut parts, body) = request.into_parts();
    let bytes = read_body(body, app).await?;
    let line = format!("{} {}\n", parts.method, parts.uri);
    let digest = BlobHash::of(&[line.as_bytes(), &bytes].concat()).hex();
    parts.extensions.insert(RequestDigest(digest));
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Refuses a role to which a route is not open.
fn check_role(role: CallerRole, method: &Method, route: &str) -> Result<(), ApiError> {
    let access = find_access(method, route);
    match (role, access) {
        (CallerRole::Person, _) | (_, Runners) | (CallerRole::Named, Clients) => Ok(()),
        (CallerRole::Named, Person) => {
            Err(ApiError::not_for_runners("this is not for named actors: a person has to do it"))
        }
        (CallerRole::Runner | CallerRole::Tool, Clients | Person) => {
            Err(ApiError::not_for_runners("this is not for runners: a person has to do it"))
        }
    }
}

fn find_access(method: &Method, route: &str) -> Access {
    if reads(method) {
        if PERSON_ONLY_READS.contains(&route) {
            return Person;
        }
        let is_open = route.contains("{session}")
            || READS_IN_DIRECTORY.contains(&route)
            || READS_WITHOUT_PLACE.contains(&route);
        return if is_open { Runners } else { Clients };
    }
    if *method == Method::POST && route.starts_with(OF_A_TURN) {
        return Runners;
    }
    let listed = CHANGES.iter().find(|(name, path, _)| method.as_str() == *name && route == *path);
    listed.map_or(Person, |(_, _, access)| *access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_is_not_listed_is_for_the_person_alone() {
        assert_eq!(find_access(&Method::POST, "/a/route/that/is/new"), Person);
        assert_eq!(find_access(&Method::PUT, "/session/{session}"), Person);
        assert_eq!(find_access(&Method::GET, "/a/route/that/is/new"), Clients);
        assert_eq!(find_access(&Method::GET, "/turnstone/log"), Clients);
        assert_eq!(find_access(&Method::GET, "/pty/{pty}"), Clients);
        assert_eq!(find_access(&Method::GET, "/pty/{pty}/connect"), Person);
        assert_eq!(find_access(&Method::GET, "/turnstone/session/{session}/log"), Runners);
        let of_a_turn = "/turnstone/session/{session}/turn/{turn}/tool";
        assert_eq!(find_access(&Method::POST, of_a_turn), Runners);
        assert_eq!(find_access(&Method::DELETE, of_a_turn), Person);
    }
}
