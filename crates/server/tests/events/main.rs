//! The event streams over real sockets: order, resumption, many and slow readers, replicas.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

mod crowd;
mod form;
mod golden;
mod heal;
mod resume;
mod script;
mod shift;
mod slow;
mod story;
mod sync;
