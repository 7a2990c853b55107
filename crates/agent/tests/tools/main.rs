//! Tools on a real engine and real files, with a host that records what they ask and show.

mod apply_patch;
mod bash;
mod edit;
mod fake_host;
mod hooks;
mod injected;
mod mcp;
mod question_and_todo;
mod read;
mod search;
mod write;
