//! Tools on a real engine and real files, with a host that records what they ask and show.

mod bash;
mod edit;
mod fake_host;
mod question_and_todo;
mod read;
mod write;
