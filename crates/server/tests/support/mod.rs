//! A running server for tests, and a client that knows just enough HTTP to talk to it.
//!
//! Used by every test program of this crate: `#[path = "../support/mod.rs"] mod support;`.

mod client;
mod clock;
mod driver;
mod server_fixture;

pub(crate) use client::{HttpAnswer, SseStream, TestClient};
pub(crate) use clock::{adjustable_now, advance_clock};
pub(crate) use driver::TurnDriver;
pub(crate) use server_fixture::{ServerFixture, git};
