//! What a native client asks for first: which server this is, how it can be reached, and what it watches.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use turnstone_core::permission::CallerRole;
use turnstone_engine::{JournalState, WatchPhase, WatchedRootStatus};

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RequestContext;
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
    /// The roots that it watches; none for a runner, which sees its own directory only.
    watched: Vec<WatchedRootInfo>,
}

/// A root that is watched.
#[derive(Serialize)]
struct WatchedRootInfo {
    root: String,
    state: &'static str,
    /// Why captures walk the worktree, if they do: a state of the journal.
    reason: Option<JournalState>,
    files: usize,
    folders: usize,
    /// About how many bytes of memory it takes.
    memory: u64,
    /// False if another process owns the store and watches the root.
    owner: bool,
}

impl From<WatchedRootStatus> for WatchedRootInfo {
    fn from(status: WatchedRootStatus) -> Self {
        let (state, reason) = match status.phase {
            WatchPhase::Starting => ("starting", None),
            WatchPhase::Watching => ("watching", None),
            WatchPhase::Walking(why) => ("walking", Some(why)),
            WatchPhase::Failed => ("failed", None),
        };
        Self {
            root: status.root.to_string_lossy().into_owned(),
            state,
            reason,
            files: status.store_status.files,
            folders: status.store_status.journal.watched,
            memory: status.store_status.memory,
            owner: status.is_owner,
        }
    }
}

/// `GET /turnstone/server`
async fn server(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
) -> Result<Json<ServerInfo>, ApiError> {
    app.run_blocking(move |app| {
        let settings = app.settings();
        let socket = match &settings.socket {
            SocketSetting::At(path) => Some(path.to_string_lossy().into_owned()),
            SocketSetting::InDataDirectory | SocketSetting::Off => None,
        };
        let watched = match ctx.role {
            CallerRole::Runner => Vec::new(),
            CallerRole::Person | CallerRole::Tool | CallerRole::Named => {
                let listed = app.engine().maintenance().watched_roots().list();
                listed.into_iter().map(WatchedRootInfo::from).collect()
            }
        };
        Ok(Json(ServerInfo {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            url: format!("http://{}", settings.listen),
            socket,
            watched,
        }))
    })
    .await
}
