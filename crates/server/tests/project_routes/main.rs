//! What a client reads at start-up: projects, directories and files, over a real socket.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

mod api;
mod document;
mod files;
mod golden;
mod ignore_limits;
mod missing_directory;
mod permission_requests;
mod pty;
mod repository_error;
mod repository_programs;
mod request_values;
mod restart;
mod secrets;
mod startup;
mod unknown_directories;
mod vcs;
