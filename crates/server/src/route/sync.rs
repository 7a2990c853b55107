//! Replicas: the numbered history of sessions, read and taken over.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use turnstone_core::id::SessionId;

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::event::{History, Replayed};
use crate::input::{Body as Given, Fields, MaybeBody};
use crate::place::body_directory;

pub(super) fn routes() -> Router<App> {
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
    State(app): State<App>,
    Caller(ctx): Caller,
    MaybeBody(fields): MaybeBody,
) -> Result<Response, ApiError> {
    let mut known = BTreeMap::new();
    for (name, value) in fields.rest() {
        let Some(number) = value.as_f64() else {
            let place = format!("\n  at [\"{name}\"]");
            return Err(ApiError::payload(format!("Expected number, got {value}{place}")));
        };
        known.insert(name, number as i64);
    }
    let begun = app.blocking(move |app| {
        let mut history = History::begin(app.engine(), &ctx, &known)?;
        let first = history.next(app.engine())?;
        Ok((history, first))
    });
    let (history, first) = begun.await?;
    let Some(first) = first else { return Ok(whole("[]".into())) };
    if history.is_over() {
        return Ok(whole(format!("[{first}]").into()));
    }
    let begun = Bytes::from(format!("[{first}"));
    let rest = stream::unfold(Some(history), move |history| {
        let app = app.clone();
        async move {
            let mut history = history?;
            let read = app.blocking(move |app| Ok((history.next(app.engine())?, history))).await;
            match read {
                Ok((Some(next), history)) => {
                    Some((Ok(Bytes::from(format!(",{next}"))), Some(history)))
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
    // Whoever carries the body may ask once more behind its end.
    let body = stream::iter([Ok(begun)]).chain(rest).fuse();
    Ok(json_answer(Body::from_stream(body)))
}

fn whole(text: Bytes) -> Response {
    json_answer(Body::from(text))
}

fn json_answer(body: Body) -> Response {
    let mut response = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// `POST /sync/replay`
async fn replay(
    State(app): State<App>,
    Caller(ctx): Caller,
    Given(mut fields): Given,
) -> Result<Json<Value>, ApiError> {
    let directory = fields.need_text("directory")?;
    let events = fields.need_objects("events")?;
    let events: Vec<Replayed> = events.into_iter().map(replayed).collect::<Result<_, _>>()?;
    let directory = body_directory(&directory)?;
    let Some(first) = events.first() else {
        return Err(ApiError::payload("Expected at least one event\n  at [\"events\"]"));
    };
    let session = first.session.clone();
    app.blocking(move |app| {
        let place = app.open_place(&ctx, &directory)?;
        crate::event::replay(app.engine(), &ctx, &place, &events)?;
        Ok(Json(json!({ "sessionID": session })))
    })
    .await
}

/// One event of a replay, as far as it can be judged by itself.
fn replayed(mut fields: Fields) -> Result<Replayed, ApiError> {
    let id = fields.need_text("id")?;
    if !id.starts_with("evt_") {
        let got = json!(id);
        return Err(fields.refuse("id", "a string starting with \"evt_\"", &got));
    }
    let session: SessionId = fields.need_id("aggregateID", "ses")?;
    let missing = || ApiError::payload("Missing key\n  at [\"seq\"]");
    let seq = fields.count("seq")?.ok_or_else(missing)?;
    let seq = i64::try_from(seq).map_err(|_| ApiError::payload("seq is too large"))?;
    let kind = fields.need_text("type")?;
    let data = fields.take("data").unwrap_or(Value::Null);
    Replayed::read(session, seq, &kind, data)
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
async fn steal(Given(mut fields): Given) -> Result<Json<Value>, ApiError> {
    fields.need_id::<SessionId>("sessionID", "ses")?;
    Err(ApiError::bare_bad_request())
}
