//! The event streams over real sockets: order, resumption, many and slow readers, replicas.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

mod golden;
mod many_streams;
mod resend_recent;
mod resume;
mod scripted_session;
mod session_changes;
mod session_switches;
mod slow_reader;
mod stream_format;
mod sync;
