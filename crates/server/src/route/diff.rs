//! Differences: what a message's turn, an answer's calls or a session changed in files.

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::wire;
use turnstone_engine::{Compared, EngineError, Form};
use turnstone_store::Context;

use super::session::session_id;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::{Query, id_in};

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/{session}/diff", get(diff))
}

impl App {
    /// Tells clients what a session has changed by now. What cannot be told can still be asked for.
    pub(in crate::route) fn tell_diff(&self, ctx: &Context, session: &SessionId) {
        let ctx = &ctx.aside();
        let read = || match self.read_diff(ctx, session) {
            Ok((place, diff)) => Some((diff.to_string(), (place, diff))),
            Err(error) => {
                tracing::warn!("what {session} has changed could not be told: {error}");
                None
            }
        };
        self.work().diffs.tell(session, read, |(place, diff)| {
            let said = json!({ "sessionID": session.as_str(), "diff": diff });
            self.hub().publish(place, "session.diff", said);
        });
    }

    /// The directory of a session, and what it has changed.
    fn read_diff(
        &self,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<(String, Value), EngineError> {
        let found = self.engine().diff(ctx, session, &Compared::Session, Form::Clients)?;
        let place = self.engine().store().read(ctx, |r| r.get_session(session))?.directory;
        Ok((place, wire::file_diffs(&found.files)))
    }
}

/// `GET /session/{sessionID}/diff`
async fn diff(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let named = query.filled("messageID");
    let read = |text| id_in::<MessageId>(&query, "messageID", "msg", text);
    let message = named.map(read).transpose()?;
    app.blocking(move |app| {
        let what = message.map_or(Compared::Session, Compared::Message);
        let found = app.engine().diff(&ctx, &id, &what, Form::Clients)?;
        Ok(Json(wire::file_diffs(&found.files)))
    })
    .await
}
