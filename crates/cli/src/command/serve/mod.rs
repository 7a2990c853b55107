//! `turnstone serve`: the server, its password, and its end.

mod password;
mod serve_args;
mod served_agent;
mod server_thread;

pub(crate) use serve_args::{ServeArgs, run};
