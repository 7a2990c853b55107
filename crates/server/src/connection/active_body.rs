//! A response body that counts as work of its connection until it has been sent or dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use super::connection_table::ActiveRequest;

/// Passes a body through unchanged and keeps the connection marked as active meanwhile.
pub(super) struct ActiveBody {
    body: Body,
    _active: ActiveRequest,
}

impl ActiveBody {
    pub(super) const fn new(body: Body, active: ActiveRequest) -> Self {
        Self { body, _active: active }
    }
}

impl HttpBody for ActiveBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
