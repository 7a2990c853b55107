//! The part of OpenCode's interface that this server does not have: one table, one answer.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodFilter, on};

use crate::app::AppState;
use crate::error::ApiError;

/// Method, path as OpenCode documents it, and what it would be; `docs/http.md` lists the same.
const NOT_OFFERED: [(&str, &str, &str); 38] = [
    ("PUT", "/auth/{providerID}", "signing in to providers"),
    ("DELETE", "/auth/{providerID}", "signing in to providers"),
    ("POST", "/experimental/control-plane/move-session", "moving a session"),
    ("PATCH", "/global/config", "writing the configuration"),
    ("POST", "/global/upgrade", "upgrading"),
    ("PATCH", "/config", "writing the configuration"),
    ("POST", "/experimental/console/switch", "organisations"),
    ("GET", "/experimental/tool", "the schemas of tools"),
    ("POST", "/experimental/session/{sessionID}/background", "work in the background"),
    ("POST", "/vcs/apply", "applying a patch"),
    ("POST", "/mcp", "MCP"),
    ("POST", "/mcp/{name}/auth", "MCP"),
    ("DELETE", "/mcp/{name}/auth", "MCP"),
    ("POST", "/mcp/{name}/auth/callback", "MCP"),
    ("POST", "/mcp/{name}/auth/authenticate", "MCP"),
    ("POST", "/mcp/{name}/connect", "MCP"),
    ("POST", "/mcp/{name}/disconnect", "MCP"),
    ("POST", "/project/git/init", "making a repository"),
    ("POST", "/experimental/project/{projectID}/copy/generate-name", "copies of projects"),
    ("POST", "/provider/{providerID}/oauth/authorize", "signing in to providers"),
    ("POST", "/provider/{providerID}/oauth/callback", "signing in to providers"),
    ("GET", "/tui/control/next", "the control queue of the terminal client"),
    ("POST", "/tui/control/response", "the control queue of the terminal client"),
    ("POST", "/experimental/workspace", "workspaces"),
    ("POST", "/experimental/workspace/sync-list", "workspaces"),
    ("DELETE", "/experimental/workspace/{id}", "workspaces"),
    ("POST", "/experimental/workspace/warp", "workspaces"),
    ("GET", "/api/integration/{integrationID}", "connecting integrations"),
    ("POST", "/api/integration/{integrationID}/connect/key", "connecting integrations"),
    ("POST", "/api/integration/{integrationID}/connect/oauth", "signing in to providers"),
    ("GET", "/api/integration/attempt/{attemptID}", "connecting integrations"),
    ("DELETE", "/api/integration/attempt/{attemptID}", "connecting integrations"),
    ("POST", "/api/integration/attempt/{attemptID}/complete", "connecting integrations"),
    ("PATCH", "/api/credential/{credentialID}", "connecting integrations"),
    ("DELETE", "/api/credential/{credentialID}", "connecting integrations"),
    ("POST", "/experimental/project/{projectID}/copy", "copies of projects"),
    ("DELETE", "/experimental/project/{projectID}/copy", "copies of projects"),
    ("POST", "/experimental/project/{projectID}/copy/refresh", "copies of projects"),
];

pub(super) fn routes() -> Router<AppState> {
    let mut router = Router::new();
    for (method, path, what) in NOT_OFFERED {
        let Some(filter) = method_filter(method) else { continue };
        let refuse = move || async move { not_offered_error(path, what) };
        router = router.route(&router_path(path), on(filter, refuse));
    }
    router
}

fn method_filter(method: &str) -> Option<MethodFilter> {
    match method {
        "GET" => Some(MethodFilter::GET),
        "POST" => Some(MethodFilter::POST),
        "PUT" => Some(MethodFilter::PUT),
        "PATCH" => Some(MethodFilter::PATCH),
        "DELETE" => Some(MethodFilter::DELETE),
        _ => None,
    }
}

/// The names our routes give to the parts of a path: `{session}` for `{sessionID}`.
fn router_path(path: &str) -> String {
    path.replace("ID}", "}")
}

fn not_offered_error(path: &str, what: &str) -> ApiError {
    if path.starts_with("/api/") {
        let message = format!("{what} is not offered by this server");
        return ApiError::tagged(StatusCode::NOT_IMPLEMENTED, "NotOfferedError", &message);
    }
    ApiError::NotOffered { what: what.to_owned() }
}
