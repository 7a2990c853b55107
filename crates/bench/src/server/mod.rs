//! The server: `turnstone serve` against the real `opencode serve`, asked the same in one run (R36).
//!
//! Both run in a home of their own over the same small project; ours writes with full durability. Every
//! figure is taken by this program over loopback, one connection kept open, as a client does.

mod comparison_table;
mod event_stream;
mod http_client;
mod server_benchmark;
mod server_under_test;
mod stream_crowd;

pub(crate) use http_client::HttpClient;
pub(crate) use server_benchmark::{find_built_turnstone, run};
pub(crate) use server_under_test::ServerUnderTest;
