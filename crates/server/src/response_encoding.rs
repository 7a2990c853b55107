//! JSON answers in the form in which others read it: half a character leaves as it came.

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use turnstone_core::lone_surrogates::encode_json_bytes;

use crate::error::ApiError;

/// Rewrites the marks of lone surrogates in a JSON answer. Streams do that frame by frame.
pub(crate) async fn encode_response(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json || response.body().size_hint().exact().is_none() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // One piece in memory: it is not copied.
    let bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return ApiError::unexpected(&error).into_response(),
    };
    let Some(text) = encode_json_bytes(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(text))
}
