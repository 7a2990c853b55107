//! `turnstone serve`: the server, its password, and its end.

mod password;
mod run;
mod start;

pub(crate) use start::{ServeArgs, run};
