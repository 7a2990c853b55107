//! Differences: what a message's turn, an answer's calls or a session changed in files.

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::wire;
use turnstone_engine::{DiffFormat, DiffTarget, EngineError};
use turnstone_store::Context;

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RequestContext;
use crate::request_input::{QueryParams, parse_query_id};

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/diff", get(diff))
}

impl AppState {
    /// Tells clients what a session has changed by now. What cannot be told can still be asked for.
    pub(in crate::route) fn publish_diff(&self, ctx: &Context, session: &SessionId) {
        let ctx = &ctx.without_preconditions();
        let read = || match self.read_diff(ctx, session) {
            Ok((place, diff)) => Some((diff.to_string(), (place, diff))),
            Err(error) => {
                tracing::warn!("what {session} has changed could not be told: {error}");
                None
            }
        };
        self.in_flight().diff_dedup.publish_if_changed(session, read, |(place, diff)| {
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
        let found = self.engine().history().diffs().diff(
            ctx,
            session,
            &DiffTarget::Session,
            DiffFormat::JsDiff,
        )?;
        let place = self.engine().store().read(ctx, |r| r.sessions().get(session))?.directory;
        Ok((place, wire::file_diffs_info(&found.files)))
    }
}

/// `GET /session/{sessionID}/diff`
async fn diff(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let named = query.non_empty("messageID");
    let read = |text| parse_query_id::<MessageId>(&query, "messageID", "msg", text);
    let message = named.map(read).transpose()?;
    app.run_blocking(move |app| {
        let what = message.map_or(DiffTarget::Session, DiffTarget::Message);
        let found = app.engine().history().diffs().diff(&ctx, &id, &what, DiffFormat::JsDiff)?;
        Ok(Json(wire::file_diffs_info(&found.files)))
    })
    .await
}
