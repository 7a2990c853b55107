//! What a native client asks for first: which server this is, and how it can be reached.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use crate::app::AppState;
use crate::settings::SocketSetting;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/turnstone/server", get(server))
}

/// Which server this is, and how it can be reached.
#[derive(Serialize)]
struct ServerInfo {
    version: &'static str,
    pid: u32,
    url: String,
    socket: Option<String>,
}

/// `GET /turnstone/server`
async fn server(State(app): State<AppState>) -> Json<ServerInfo> {
    let settings = app.settings();
    let socket = match &settings.socket {
        SocketSetting::At(path) => Some(path.to_string_lossy().into_owned()),
        SocketSetting::InDataDirectory | SocketSetting::Off => None,
    };
    Json(ServerInfo {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        url: format!("http://{}", settings.listen),
        socket,
    })
}
