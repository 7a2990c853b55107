//! History over HTTP: revert, fork, differences, parts, lists; requests made once; native routes.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test program uses what it needs of it")]
mod support;

mod compact;
mod cut;
mod doc;
mod golden;
mod list;
mod message;
mod native;
mod once;
mod page;
mod revert;
mod scene;
mod stage;
