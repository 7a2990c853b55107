//! The npm package calls our server.

use std::time::Duration;

use capnweb::net::{RpcServer, ServerOptions, ServerStats, router};
use capnweb::wire::PeerVersion;

use crate::npm_package::{TestResult, script};
use crate::{service, stats};

pub(crate) async fn serve(profile: PeerVersion) -> TestResult<(String, RpcServer)> {
    let mut options = ServerOptions::default();
    options.session.profile = profile;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let server = RpcServer::new(service::main_object, options);
    let routes = router("/", server.clone()).merge(stats::router(server.clone()));
    tokio::spawn(axum::serve(listener, routes).into_future());
    Ok((url, server))
}

async fn run_npm_client(version: &'static str, profile: PeerVersion) -> TestResult {
    let (url, server) = serve(profile).await?;
    let ran = tokio::task::spawn_blocking(move || {
        script("client.mjs", version, &url).map_err(|error| error.to_string())
    });
    ran.await??;
    // The script has looked at the tables of the open session; now none is open.
    let closed = async {
        while server.stats() != ServerStats::default() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let closed = tokio::time::timeout(Duration::from_secs(60), closed).await;
    closed.map_err(|_| format!("still held after the last session: {:?}", server.stats()))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn server_serves_npm_0_12_client() -> TestResult {
    run_npm_client("0.12", PeerVersion::Current).await
}

#[tokio::test(flavor = "multi_thread")]
async fn server_serves_npm_0_8_client() -> TestResult {
    run_npm_client("0.8", PeerVersion::Current).await
}

#[tokio::test(flavor = "multi_thread")]
async fn server_serves_npm_0_4_client() -> TestResult {
    run_npm_client("0.4", PeerVersion::V0_4).await
}
