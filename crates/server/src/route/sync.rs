//! Replicas: the numbered history of sessions, read and taken over.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::lone_surrogates::encode_json;

use crate::app::AppState;
use crate::error::ApiError;
use crate::event::{ReplayedEvent, SyncHistory};
use crate::project_directory::{body_directory, open_project_directory};
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody as Given, JsonFields, OptionalJsonBody};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/sync/history", post(history))
        .route("/sync/replay", post(replay))
        .route("/sync/start", post(start))
        .route("/sync/steal", post(steal))
}

/// `POST /sync/history`
///
/// OpenCode answers with everything at once; so does this, but it is read as it is sent.
async fn history(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    OptionalJsonBody(fields): OptionalJsonBody,
) -> Result<Response, ApiError> {
    let mut known = BTreeMap::new();
    for (name, value) in fields.into_map() {
        let Some(number) = value.as_f64() else {
            let place = format!("\n  at [\"{name}\"]");
            return Err(ApiError::invalid_payload(format!("Expected number, got {value}{place}")));
        };
        known.insert(name, number as i64);
    }
    let begun = app.run_blocking(move |app| {
        let mut history = SyncHistory::start(app.engine(), &ctx, &known)?;
        let first = history.next_chunk(app.engine())?;
        Ok((history, first))
    });
    let (history, first) = begun.await?;
    let Some(first) = first else { return Ok(json_bytes_response("[]".into())) };
    if history.is_finished() {
        return Ok(json_bytes_response(format!("[{first}]").into()));
    }
    let begun = Bytes::from(encode_json(&format!("[{first}")).into_owned());
    let rest = stream::unfold(Some(history), move |history| {
        let app = app.clone();
        async move {
            let mut history = history?;
            let read =
                app.run_blocking(move |app| Ok((history.next_chunk(app.engine())?, history))).await;
            match read {
                Ok((Some(next), history)) => {
                    let next = format!(",{next}");
                    Some((Ok(Bytes::from(encode_json(&next).into_owned())), Some(history)))
                }
                Ok((None, _)) => Some((Ok(Bytes::from_static(b"]")), None)),
                // The list stays open: no client takes it for the whole.
                Err(error) => {
                    tracing::error!(?error, "the history cannot be read");
                    Some((Err(std::io::Error::other("the history cannot be read")), None))
                }
            }
        }
    });
    // The body may be polled once more after its end.
    let body = stream::iter([Ok(begun)]).chain(rest).fuse();
    Ok(json_response(Body::from_stream(body)))
}

fn json_bytes_response(text: Bytes) -> Response {
    json_response(Body::from(text))
}

fn json_response(body: Body) -> Response {
    let mut response = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The session whose events were stored.
#[derive(Serialize)]
struct ReplayResponse {
    #[serde(rename = "sessionID")]
    session: SessionId,
}

/// `POST /sync/replay`
async fn replay(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Given(mut fields): Given,
) -> Result<Json<ReplayResponse>, ApiError> {
    let directory = fields.require_text("directory")?;
    let events = fields.require_objects("events")?;
    let events: Vec<ReplayedEvent> =
        events.into_iter().map(parse_replayed_event).collect::<Result<_, _>>()?;
    let directory = body_directory(&directory)?;
    let Some(first) = events.first() else {
        return Err(ApiError::invalid_payload("Expected at least one event\n  at [\"events\"]"));
    };
    let session = first.session.clone();
    app.run_blocking(move |app| {
        let place = open_project_directory(app, &ctx, &directory)?;
        crate::event::replay_events(app.engine(), &ctx, &place, &events)?;
        Ok(Json(ReplayResponse { session }))
    })
    .await
}

/// One event of a replay, as far as it can be judged by itself.
fn parse_replayed_event(mut fields: JsonFields) -> Result<ReplayedEvent, ApiError> {
    let id = fields.require_text("id")?;
    if !id.starts_with("evt_") {
        let got = json!(id);
        return Err(fields.invalid_field("id", "a string starting with \"evt_\"", &got));
    }
    let session: SessionId = fields.require_id("aggregateID", "ses")?;
    let missing = || ApiError::invalid_payload("Missing key\n  at [\"seq\"]");
    let seq = fields.count("seq")?.ok_or_else(missing)?;
    let seq = i64::try_from(seq).map_err(|_| ApiError::invalid_payload("seq is too large"))?;
    let kind = fields.require_text("type")?;
    let data = fields.take("data").unwrap_or(Value::Null);
    ReplayedEvent::parse(session, seq, &kind, data)
}

/// `POST /sync/start`
///
/// There is nothing to start: the log is always followed.
async fn start() -> Json<bool> {
    Json(true)
}

/// `POST /sync/steal`
///
/// As OpenCode where it is no workspace of another server, and this is none.
async fn steal(Given(mut fields): Given) -> Result<Json<bool>, ApiError> {
    fields.require_id::<SessionId>("sessionID", "ses")?;
    Err(ApiError::bare_bad_request())
}
