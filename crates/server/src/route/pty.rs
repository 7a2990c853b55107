//! Terminals: started, listed, resized and ended over HTTP; seen and typed into over a WebSocket.

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use turnstone_core::id::PtyId;

use crate::app::AppState;
use crate::connection::ConnectionHandle;
use crate::error::ApiError;
use crate::project_directory::ProjectDirectory;
use crate::pty::{
    ConnectTicket, MAX_INPUT_BYTES, PtyInfo, PtyLifetime, PtyRegistry, PtyRequest, PtyTerminal,
    PtyUpdateRequest, ScrollbackStart, relay_terminal, requested_ticket,
};
use crate::request_input::{JsonBody, QueryParams, parse_path_id};
use crate::request_scope::DirectoryRequest;

/// The buffers of a WebSocket, in bytes.
const SOCKET_BUFFER: usize = 16 << 10;
/// What a page of another origin cannot send without asking first.
const TICKET_HEADER: &str = "x-opencode-ticket";
/// Where the system lists its shells.
const SHELL_LIST: &str = "/etc/shells";

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/pty", get(list).post(create))
        .route("/pty/shells", get(shells))
        .route("/pty/{pty}", get(read).put(update).delete(remove))
        .route("/pty/{pty}/connect-token", post(connect_token))
        .route("/pty/{pty}/connect", get(connect))
}

/// A request about one terminal of a directory.
pub(super) struct PtyScope {
    /// The directory.
    pub(super) directory: DirectoryRequest,
    /// The terminal.
    pub(super) id: PtyId,
}

impl FromRequestParts<AppState> for PtyScope {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|error| ApiError::invalid_params(error.body_text()))?;
        let text = params.iter().find(|(name, _)| *name == "pty").map(|(_, text)| text);
        let id = parse_path_id("ptyID", "pty", text.unwrap_or_default())?;
        Ok(Self { directory: DirectoryRequest::from_request_parts(parts, app).await?, id })
    }
}

impl PtyScope {
    /// Runs `work` with the terminal where it may block. Clients of the older routes do not know of terminals
    /// whose program has ended.
    pub(super) async fn run<T, F>(self, keeps_exited: bool, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(
                &AppState,
                &ProjectDirectory,
                &std::sync::Arc<PtyTerminal>,
            ) -> Result<T, ApiError>
            + Send
            + 'static,
    {
        let Self { directory, id } = self;
        directory
            .in_project(move |app, _, place| {
                let terminal = app.terminals().get(&place.directory, &id)?;
                if !keeps_exited && !terminal.is_running() {
                    return Err(PtyRegistry::not_found(&id));
                }
                work(app, &place, &terminal)
            })
            .await
    }
}

/// `GET /pty`
async fn list(request: DirectoryRequest) -> Result<Json<Vec<PtyInfo>>, ApiError> {
    request
        .in_project(|app, _, place| {
            let all = app.terminals().list(&place.directory);
            let running = all.iter().filter(|terminal| terminal.is_running());
            Ok(Json(running.map(|terminal| terminal.info()).collect()))
        })
        .await
}

/// `POST /pty`
async fn create(
    request: DirectoryRequest,
    JsonBody(fields): JsonBody,
) -> Result<Json<PtyInfo>, ApiError> {
    let wanted = PtyRequest::parse(fields)?;
    request
        .in_project(move |app, _, place| {
            PtyRegistry::create(app, &place, &wanted, PtyLifetime::UntilExit).map(Json)
        })
        .await
}

/// `GET /pty/{ptyID}`
async fn read(scope: PtyScope) -> Result<Json<PtyInfo>, ApiError> {
    scope.run(false, |_, _, terminal| Ok(Json(terminal.info()))).await
}

/// `PUT /pty/{ptyID}`
async fn update(scope: PtyScope, JsonBody(fields): JsonBody) -> Result<Json<PtyInfo>, ApiError> {
    let change = PtyUpdateRequest::parse(fields)?;
    scope.run(false, |app, _, terminal| PtyRegistry::update(app, terminal, change).map(Json)).await
}

/// `DELETE /pty/{ptyID}`
async fn remove(scope: PtyScope) -> Result<Json<bool>, ApiError> {
    scope
        .run(false, |app, _, terminal| {
            PtyRegistry::remove(app, terminal);
            Ok(Json(true))
        })
        .await
}

/// True if a request for a ticket cannot come from a page that did not ask first.
pub(super) fn has_ticket_header(headers: &HeaderMap) -> bool {
    headers.get(TICKET_HEADER).is_some_and(|value| value == "1")
}

/// The words OpenCode refuses a ticket with.
pub(super) fn ticket_refused(tag: &'static str) -> ApiError {
    ApiError::tagged(StatusCode::FORBIDDEN, tag, "Invalid PTY connect token request")
}

/// `POST /pty/{ptyID}/connect-token`
async fn connect_token(
    scope: PtyScope,
    headers: HeaderMap,
) -> Result<Json<ConnectTicket>, ApiError> {
    if !has_ticket_header(&headers) {
        return Err(ticket_refused("PtyForbiddenError"));
    }
    let issue = |app: &AppState, terminal: &PtyTerminal| {
        app.terminals().issue_ticket(terminal, app.now()).map(Json)
    };
    scope.run(false, move |app, _, terminal| issue(app, terminal)).await
}

/// What opens a WebSocket.
pub(super) struct ConnectRequest {
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    connection: ConnectionHandle,
    start: ScrollbackStart,
    ticket: Option<(String, String)>,
}

impl FromRequestParts<AppState> for ConnectRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let query = QueryParams::parse(parts.uri.query().unwrap_or_default());
        let connection = Extension::<ConnectionHandle>::from_request_parts(parts, app).await;
        let Extension(connection) = connection.map_err(|error| ApiError::unexpected(&error))?;
        Ok(Self {
            start: ScrollbackStart::parse(query.get("cursor")),
            ticket: requested_ticket(&parts.uri),
            upgrade: WebSocketUpgrade::from_request_parts(parts, app).await,
            connection,
        })
    }
}

impl ConnectRequest {
    /// Opens the WebSocket of a terminal.
    pub(super) async fn open(
        self,
        scope: PtyScope,
        keeps_exited: bool,
    ) -> Result<Response, ApiError> {
        let app = scope.directory.app.clone();
        let terminal = scope.run(keeps_exited, |_, _, terminal| Ok(terminal.clone())).await?;
        let upgrade = self.upgrade.map_err(|error| ApiError::invalid_query(error.body_text()))?;
        let now = app.now();
        if self.ticket.is_some_and(|ticket| !app.terminals().redeem_ticket(&ticket, now)) {
            let message = "this ticket is not valid for this terminal, or no longer";
            return Err(ApiError::tagged(StatusCode::FORBIDDEN, "ForbiddenError", message));
        }
        let slot = terminal.acquire_socket().ok_or_else(|| {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let message = "this terminal has too many connections";
            ApiError::tagged(status, "ServiceUnavailableError", message)
                .with_field("service", "pty")
        })?;
        let (start, held) = (self.start, (self.connection, slot));
        let upgrade = upgrade
            .max_message_size(MAX_INPUT_BYTES)
            .max_frame_size(MAX_INPUT_BYTES)
            .read_buffer_size(SOCKET_BUFFER)
            .write_buffer_size(0);
        Ok(upgrade
            .on_upgrade(move |socket| relay_terminal(socket, terminal, start, held))
            .into_response())
    }
}

/// `GET /pty/{ptyID}/connect`
async fn connect(scope: PtyScope, request: ConnectRequest) -> Result<Response, ApiError> {
    request.open(scope, false).await
}

/// A program that can be the shell of a terminal.
#[derive(Serialize)]
struct ShellProgram {
    path: String,
    name: String,
    /// False for a program that is listed and is not there.
    acceptable: bool,
}

/// `GET /pty/shells`: those the system lists and has.
async fn shells(request: DirectoryRequest) -> Result<Json<Vec<ShellProgram>>, ApiError> {
    request
        .in_project(|_, _, _| {
            // A system without the file lists none.
            let listed = fs_err::read_to_string(SHELL_LIST).unwrap_or_default();
            let paths = listed.lines().map(str::trim).filter(|line| line.starts_with('/'));
            let present = paths.filter(|path| std::path::Path::new(path).is_file());
            let shell = |path: &str| ShellProgram {
                path: path.to_owned(),
                name: path.rsplit('/').next().unwrap_or_default().to_owned(),
                acceptable: true,
            };
            Ok(Json(present.map(shell).collect()))
        })
        .await
}
