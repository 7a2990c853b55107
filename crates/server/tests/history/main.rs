//! History over HTTP: revert, fork, differences, parts, lists; requests made once; native routes.

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "every test program uses what it needs of it")]
mod support;

mod golden;
mod list;
mod message;
mod once;
mod revert;
mod scene;
