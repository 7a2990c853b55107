//! History over HTTP: revert, fork, differences, parts, lists; requests made once; native routes.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test program uses what it needs of it")]
mod support;

mod compact;
mod failed_sync;
mod golden;
mod idempotency;
mod interrupted_requests;
mod list;
mod message;
mod native;
mod native_bodies;
mod native_details;
mod native_openapi;
mod page;
mod revert;
mod staged_revert;
mod turn_fixture;
mod watched_roots;
