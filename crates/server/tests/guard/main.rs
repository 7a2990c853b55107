//! Who may ask, how much, and how long it may take, over a real socket.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

mod access;
mod actor;
mod connection_limits;
mod denied_paths;
mod document;
mod file_limits;
mod host;
mod origin;
mod other_user;
mod password;
mod peers;
mod runner_reach;
mod runner_token;
mod timeouts;
