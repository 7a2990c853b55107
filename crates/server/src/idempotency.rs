//! Requests that are made once: an `Idempotency-Key` answers a repeat with the first answer (R43).
//!
//! The answer is kept in the database, by actor, route and key, before it is given: a repeat gets it
//! after a restart too. A request that was cut off between its first event and its answer is known by
//! the mark that event left: it is never done twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use turnstone_core::time::LogCursor;
use turnstone_store::{BlobHash, Context, IdempotencyRecord};

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::{RequestContext, short_header};
use crate::request_input::read_body;

/// The header that names a request.
const KEY_HEADER: &str = "idempotency-key";

/// The route that answers with the token of a runner.
const REGISTRATION_PATH: &str = "/turnstone/runner";
/// How the paths of routes end that answer with a ticket or with the content of a file.
const UNSTORED_ENDINGS: [&str; 2] = ["/connect-token", "/file/read"];

/// Headers of an answer that a repeat gets too.
const STORED_HEADERS: [&str; 3] = ["content-type", "etag", "x-next-cursor"];

/// What is known of a request that has a key.
#[derive(Clone, Debug)]
pub(crate) struct IdempotentRequest {
    /// Its key together with its route.
    pub(crate) key: String,
    /// The first event of an earlier try that never answered.
    pub(crate) first_event: Option<LogCursor>,
}

/// The requests with a key that are being answered.
#[derive(Default)]
pub(crate) struct InFlightRequests {
    held: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl InFlightRequests {
    fn lock_for(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // The last holder leaves it to be removed by the next request.
        held.retain(|_, claim| Arc::strong_count(claim) > 1);
        held.entry(name.to_owned()).or_default().clone()
    }
}

/// An answer as it is kept.
#[derive(Deserialize, Serialize)]
struct StoredResponse {
    /// What was asked, so that one key is not used for two things.
    asked: String,
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// Answers a repeat, or lets the request through and keeps its answer.
pub(crate) async fn idempotency_layer(
    State(app): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && holds_secret(request.uri().path()) {
        return next.run(request).await;
    }
    match short_header(request.headers(), KEY_HEADER) {
        Some(key) if !reads => match handle_keyed(&app, request, next, &key).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        },
        // A key that cannot be kept must not be taken for none: a repeat would be done twice.
        None if !reads && request.headers().get(KEY_HEADER).is_some_and(|key| !key.is_empty()) => {
            ApiError::invalid_query("Idempotency-Key must be 1 to 128 letters of ASCII")
                .into_response()
        }
        _ => next.run(request).await,
    }
}

/// True for routes whose answers must not be put on the disk. None of them stores anything, so a repeat does
/// no harm.
fn holds_secret(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    path == REGISTRATION_PATH || UNSTORED_ENDINGS.iter().any(|ending| path.ends_with(ending))
}

async fn handle_keyed(
    app: &AppState,
    request: Request,
    next: Next,
    key: &str,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = read_body(body, app).await?;
    let query = parts.uri.query().unwrap_or_default();
    let asked = BlobHash::of(&[query.as_bytes(), b"\n", &bytes].concat()).hex();
    let RequestContext(ctx) = RequestContext::from_headers(&parts.headers, app)?;
    let key = format!("{} {}\t{key}", parts.method, parts.uri.path());
    let ctx = ctx.with_idempotency_key(key.clone()).without_expected_seq();
    // A request with the same key at the same time waits for the one response.
    let claim =
        app.in_flight().idempotent_requests.lock_for(&format!("{}\t{key}", ctx.actor.as_str()));
    let _alone = claim.lock().await;
    let looked = ctx.clone();
    let IdempotencyRecord { first_event: began, answer } =
        app.run_blocking(move |app| Ok(app.engine().store().idempotency().find(&looked)?)).await?;
    if let Some(answer) = answer {
        return replay_response(&answer, &asked);
    }
    let mut request = Request::from_parts(parts, Body::from(bytes));
    request.extensions_mut().insert(IdempotentRequest { key, first_event: began });
    let response = next.run(request).await;
    match response.status().is_success() {
        true => store_response(app, ctx, asked, response).await,
        // What was refused may be tried again.
        false => Ok(response),
    }
}

/// The first answer, once more.
fn replay_response(answer: &str, asked: &str) -> Result<Response, ApiError> {
    let kept: StoredResponse =
        serde_json::from_str(answer).map_err(|e| ApiError::unexpected(&e))?;
    if kept.asked != asked {
        let message = "this Idempotency-Key was used for another request to this route";
        return Err(ApiError::tagged(StatusCode::CONFLICT, "KeyReusedError", message));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &kept.headers {
        let pair = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
        if let (Ok(name), Ok(value)) = pair {
            headers.insert(name, value);
        }
    }
    headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    let status = StatusCode::from_u16(kept.status).map_err(|e| ApiError::unexpected(&e))?;
    Ok((status, headers, kept.body).into_response())
}

/// Keeps an answer before it is given.
async fn store_response(
    app: &AppState,
    ctx: Context,
    asked: String,
    response: Response,
) -> Result<Response, ApiError> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|e| ApiError::unexpected(&e))?.to_bytes();
    let value = |name: &&str| {
        Some(((*name).to_owned(), parts.headers.get(*name)?.to_str().ok()?.to_owned()))
    };
    let kept = StoredResponse {
        asked,
        status: parts.status.as_u16(),
        headers: STORED_HEADERS.iter().filter_map(value).collect(),
        body: String::from_utf8_lossy(&bytes).into_owned(),
    };
    let text = serde_json::to_string(&kept).map_err(|e| ApiError::unexpected(&e))?;
    app.run_blocking(move |app| Ok(app.engine().history().edits().record_response(&ctx, text)?))
        .await?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}
