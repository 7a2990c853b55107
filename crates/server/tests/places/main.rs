//! What a client reads at start-up, places and files, over a real socket.

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared by several test programs")]
mod support;

mod api;
mod asks;
mod document;
mod files;
mod golden;
mod gone;
mod harness;
mod ignore_limits;
mod repository_error;
mod secrets;
mod startup;
mod tripwire;
mod unknown;
mod vcs;
