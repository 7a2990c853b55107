//! A running server for tests, and a client that knows just enough HTTP to talk to it.
//!
//! Used by every test program of this crate: `#[path = "../support/mod.rs"] mod support;`.

mod client;
mod clock;
mod driver;
mod openapi_schema;
mod server_fixture;
mod web_socket;

pub(crate) use client::{HttpAnswer, SseStream, TestClient};
pub(crate) use clock::{adjustable_now, advance_clock};
pub(crate) use driver::TurnDriver;
pub(crate) use openapi_schema::OpenApiDocument;
pub(crate) use server_fixture::{ServerFixture, git};
pub(crate) use web_socket::{SocketFrame, TestWebSocket};
