//! The npm package calls our server.

use capnweb::net::{Server, ServerOptions, router};
use capnweb::wire::Profile;

use crate::node::{TestResult, script};
use crate::service;

pub(crate) async fn serve(profile: Profile) -> TestResult<String> {
    let mut options = ServerOptions::default();
    options.session.profile = profile;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let server = Server::new(service::main_object, options);
    tokio::spawn(axum::serve(listener, router("/", server)).into_future());
    Ok(url)
}

async fn called_by(version: &'static str, profile: Profile) -> TestResult {
    let url = serve(profile).await?;
    let ran = tokio::task::spawn_blocking(move || {
        script("client.mjs", version, &url).map_err(|error| error.to_string())
    });
    Ok(ran.await??)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_0_12_is_served() -> TestResult {
    called_by("0.12", Profile::Current).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_0_8_is_served() -> TestResult {
    called_by("0.8", Profile::Current).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_0_4_is_served_with_its_profile() -> TestResult {
    called_by("0.4", Profile::V0_4).await
}
