//! Differences: what a message's turn, an answer's calls or a session changed in files.

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::SessionFileDiff;
use turnstone_core::wire;
use turnstone_engine::{DiffFormat, DiffTarget, EngineError};
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_input::{QueryParams, parse_query_id};
use crate::request_scope::SessionRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/diff", get(diff))
}

/// Publishes what a session has changed so far. A failure is logged: clients can still ask for the diff.
pub(crate) fn publish_diff(app: &AppState, ctx: &Context, session: &SessionId) {
    let ctx = &ctx.without_preconditions();
    let read = || match read_diff(app, ctx, session) {
        Ok((directory, diff)) => Some((diff.to_string(), (directory, diff))),
        Err(error) => {
            tracing::warn!("the diff of {session} could not be published: {error}");
            None
        }
    };
    app.in_flight().diff_dedup.publish_if_changed(session, read, |(directory, diff)| {
        let properties = json!({ "sessionID": session.as_str(), "diff": diff });
        app.hub().publish(directory, "session.diff", properties);
    });
}

/// The directory of a session, and what it has changed, as an event has it.
fn read_diff(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
) -> Result<(String, Value), EngineError> {
    let found = app.engine().history().diffs().diff(
        ctx,
        session,
        &DiffTarget::Session,
        DiffFormat::JsDiff,
    )?;
    let directory = app.engine().store().read(ctx, |r| r.sessions().get(session))?.directory;
    Ok((directory, wire::file_diffs_info(&found.files)))
}

/// `GET /session/{sessionID}/diff`
async fn diff(
    request: SessionRequest,
    query: QueryParams,
) -> Result<Json<Vec<SessionFileDiff>>, ApiError> {
    let named = query.non_empty("messageID");
    let read = |text| parse_query_id::<MessageId>(&query, "messageID", "msg", text);
    let target = named.map(read).transpose()?.map_or(DiffTarget::Session, DiffTarget::Message);
    request
        .run(move |app, ctx, id| {
            Ok(Json(
                app.engine().history().diffs().diff(ctx, id, &target, DiffFormat::JsDiff)?.files,
            ))
        })
        .await
}
