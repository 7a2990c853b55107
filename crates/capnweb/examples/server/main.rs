//! Serves the test service on a port of the loopback interface: batches and WebSockets on `/`,
//! the service of capnweb-go's raw client on `/raw`, and what the sessions on `/` hold on `/stats`.
//!
//! `cargo run -p capnweb --features server --example server -- 8787`; port 0 takes a free one. The
//! address is printed when the server listens. `0.4` as second argument serves old peers.

mod raw;
mod service;
mod stats;

use std::io::Write as _;

use axum::serve::ListenerExt as _;
use capnweb::net::{RpcServer, ServerOptions, router};
use capnweb::wire::PeerVersion;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().map_or(Ok(8787), |port| port.parse())?;
    let mut options = ServerOptions::default();
    if args.next().as_deref() == Some("0.4") {
        options.session.profile = PeerVersion::V0_4;
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    writeln!(std::io::stdout(), "http://{}/", listener.local_addr()?)?;
    let server = RpcServer::new(service::main_object, options.clone());
    let tested = router("/", server.clone()).merge(stats::router(server));
    let raw = router("/raw", RpcServer::new(raw::main_object, options));
    // Answers are small and wanted at once.
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).ok();
    });
    axum::serve(listener, tested.merge(raw)).await?;
    Ok(())
}
