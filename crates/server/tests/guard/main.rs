//! Who may ask, how much, and how long it may take, over a real socket.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

mod access;
mod actor;
mod crowd;
mod document;
mod host;
mod origin;
mod other_user;
mod password;
mod patience;
mod peers;
mod token;
