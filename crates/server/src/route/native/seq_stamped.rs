//! Responses of native routes: JSON, with the sequence number of the session.

use axum::Json;
use axum::body::Bytes;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use turnstone_core::id::SessionId;
use turnstone_core::time::SessionSeq;
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;

/// A response about a session, and its sequence number.
pub(super) struct SeqStamped<T> {
    body: T,
    seq: SessionSeq,
}

/// A body that is JSON already.
pub(super) struct EncodedJson(pub(super) Bytes);

impl<T: Serialize> IntoResponse for SeqStamped<T> {
    fn into_response(self) -> Response {
        stamped(Json(self.body).into_response(), self.seq)
    }
}

impl IntoResponse for SeqStamped<EncodedJson> {
    fn into_response(self) -> Response {
        let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        stamped((json, self.body.0).into_response(), self.seq)
    }
}

fn stamped(mut response: Response, seq: SessionSeq) -> Response {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{}\"", seq.0)) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}

/// The response `body` with the present sequence number of the session.
pub(super) fn stamp_seq<T>(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    body: T,
) -> Result<SeqStamped<T>, ApiError> {
    let seq = app.engine().store().read(ctx, |r| r.sessions().seq(session))?;
    Ok(SeqStamped { body, seq })
}
