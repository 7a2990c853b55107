//! Messages: listed by page, read one by one.

use axum::Json;
use axum::Router;
use axum::extract::Path;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderValue};
use axum::routing::get;
use turnstone_core::id::MessageId;
use turnstone_store::ReadTx;

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_input::{QueryParams, parse_path_id};
use crate::request_scope::SessionRequest;
use crate::wire_json::{MessageResponse, PART_RENDERER, message_response};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/message", get(list))
        .route("/session/{session}/message/{message}", get(read))
}

/// `GET /session/{sessionID}/message`
async fn list(
    request: SessionRequest,
    headers: HeaderMap,
    query: QueryParams,
) -> Result<(HeaderMap, String), ApiError> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    // An empty number is none, as in JavaScript.
    let limit = match query.find_single("limit")? {
        Some("") => None,
        _ => query.count("limit")?.filter(|limit| *limit > 0),
    };
    let before = query.find_single("before")?.filter(|text| !text.is_empty()).map(str::to_owned);
    if before.is_some() && limit.is_none() {
        return Err(ApiError::bare_bad_request());
    }
    request
        .run(move |app, ctx, id| {
            let most = limit.unwrap_or(usize::MAX);
            let render = |r: &ReadTx<'_>| {
                r.wire_json().list_messages(id, before.as_deref(), most, PART_RENDERER)
            };
            let read = app.engine().store().read(ctx, render);
            let page = match read {
                Err(turnstone_store::StoreError::Invalid(_)) => {
                    return Err(ApiError::bare_bad_request());
                }
                read => read?,
            };
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if let (Some(cursor), Some(limit)) = (&page.before, limit) {
                let origin = host.map(|host| format!("http://{host}")).unwrap_or_default();
                let next = format!("/session/{id}/message?limit={limit}&before={cursor}");
                let link = format!("<{origin}{next}>; rel=\"next\"");
                for (name, text) in [("x-next-cursor", cursor), ("link", &link)] {
                    if let Ok(value) = HeaderValue::from_str(text) {
                        headers.insert(name, value);
                    }
                }
                let names = HeaderValue::from_static("Link, X-Next-Cursor");
                headers.insert("access-control-expose-headers", names);
            }
            Ok((headers, page.json))
        })
        .await
}

/// `GET /session/{sessionID}/message/{messageID}`
async fn read(
    request: SessionRequest,
    Path((_, message)): Path<(String, String)>,
) -> Result<Json<MessageResponse>, ApiError> {
    let message: MessageId = parse_path_id("messageID", "msg", &message)?;
    request
        .run(move |app, ctx, id| {
            let found = app.engine().store().read(ctx, |r| r.messages().get(id, &message))?;
            Ok(Json(message_response(&found)))
        })
        .await
}
