//! Terminals in the newer form: with their location, and kept after their program has ended.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};

use super::super::pty::{ConnectRequest, PtyScope, has_ticket_header, ticket_refused};
use super::location::LocatedData;
use crate::app::AppState;
use crate::error::ApiError;
use crate::pty::{ConnectTicket, PtyInfo, PtyLifetime, PtyRegistry, PtyRequest, PtyUpdateRequest};
use crate::request_input::JsonBody;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/pty", get(list).post(create))
        .route("/api/pty/{pty}", get(read).put(update).delete(remove))
        .route("/api/pty/{pty}/connect-token", post(connect_token))
        .route("/api/pty/{pty}/connect", get(connect))
}

/// A terminal with its location.
type LocatedPty = Result<Json<LocatedData<PtyInfo>>, ApiError>;

/// `GET /api/pty`
async fn list(request: DirectoryRequest) -> Result<Json<LocatedData<Vec<PtyInfo>>>, ApiError> {
    request
        .in_project(|app, _, place| {
            let all = app.terminals().list(&place.directory);
            let all = all.iter().map(|terminal| terminal.info()).collect();
            Ok(Json(LocatedData::new(&place, all)))
        })
        .await
}

/// `POST /api/pty`
async fn create(request: DirectoryRequest, JsonBody(fields): JsonBody) -> LocatedPty {
    let wanted = PtyRequest::parse(fields)?;
    request
        .in_project(move |app, _, place| {
            let info = PtyRegistry::create(app, &place, &wanted, PtyLifetime::UntilRemoved)?;
            Ok(Json(LocatedData::new(&place, info)))
        })
        .await
}

/// `GET /api/pty/{ptyID}`
async fn read(scope: PtyScope) -> LocatedPty {
    scope.run(true, |_, place, terminal| Ok(Json(LocatedData::new(place, terminal.info())))).await
}

/// `PUT /api/pty/{ptyID}`
async fn update(scope: PtyScope, JsonBody(fields): JsonBody) -> LocatedPty {
    let change = PtyUpdateRequest::parse(fields)?;
    scope
        .run(true, |app, place, terminal| {
            let info = PtyRegistry::update(app, terminal, change)?;
            Ok(Json(LocatedData::new(place, info)))
        })
        .await
}

/// `DELETE /api/pty/{ptyID}`
async fn remove(scope: PtyScope) -> Result<StatusCode, ApiError> {
    scope
        .run(true, |app, _, terminal| {
            PtyRegistry::remove(app, terminal);
            Ok(StatusCode::NO_CONTENT)
        })
        .await
}

/// `POST /api/pty/{ptyID}/connect-token`
async fn connect_token(
    scope: PtyScope,
    headers: HeaderMap,
) -> Result<Json<LocatedData<ConnectTicket>>, ApiError> {
    if !has_ticket_header(&headers) {
        return Err(ticket_refused("ForbiddenError"));
    }
    scope
        .run(true, |app, place, terminal| {
            let ticket = app.terminals().issue_ticket(terminal, app.now())?;
            Ok(Json(LocatedData::new(place, ticket)))
        })
        .await
}

/// `GET /api/pty/{ptyID}/connect`
async fn connect(scope: PtyScope, request: ConnectRequest) -> Result<Response, ApiError> {
    request.open(scope, true).await
}
