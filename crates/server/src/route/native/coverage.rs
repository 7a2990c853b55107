//! What can be undone: whether a session's files are captured, and which paths are contended.

use axum::Router;
use axum::routing::get;
use serde::Serialize;
use turnstone_engine::{
    ContendedPath, EngineError, SessionCoverage, UndoAspect, UndoOptions, UndoTarget,
};

use super::seq_stamped::{SeqStamped, stamp_seq};
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_scope::SessionRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/coverage", get(coverage))
        .route("/turnstone/session/{session}/contended", get(contended))
}

/// Whether the files of a session are captured.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CoverageResponse {
    /// The root that is captured; nothing if none is.
    root: Option<String>,
    /// Why nothing is captured, if nothing is.
    refused: Option<String>,
    /// True once the whole root was captured: then steps have snapshots.
    baseline: bool,
    /// Paths the session changed that are not covered.
    not_covered: u64,
}

/// `GET /turnstone/session/{sessionID}/coverage`
async fn coverage(request: SessionRequest) -> Result<SeqStamped<CoverageResponse>, ApiError> {
    request
        .run(|app, ctx, id| {
            let (stored, changes) = app
                .engine()
                .store()
                .read(ctx, |r| Ok((r.sessions().get(id)?, r.change_sets().list(id)?)))?;
            let not_covered = changes.iter().map(|row| row.not_covered).sum();
            let found = match app.engine().snapshots().find_coverage(&stored, ctx.now)? {
                SessionCoverage::Covered { root, has_baseline } => CoverageResponse {
                    root: Some(root.to_string_lossy().into_owned()),
                    refused: None,
                    baseline: has_baseline,
                    not_covered,
                },
                SessionCoverage::Refused(why) => CoverageResponse {
                    root: None,
                    refused: Some(why.to_string()),
                    baseline: false,
                    not_covered,
                },
            };
            stamp_seq(app, ctx, id, found)
        })
        .await
}

/// `GET /turnstone/session/{sessionID}/contended`
///
/// The paths an undo of the whole session would leave alone, because other sessions claim them too.
async fn contended(request: SessionRequest) -> Result<SeqStamped<Vec<ContendedPath>>, ApiError> {
    request
        .run(|app, ctx, id| {
            let turns = app.engine().store().read(ctx, |r| r.turns().list(id))?;
            let found = match turns.into_iter().find(|row| !row.hidden) {
                None => Vec::new(),
                Some(first) => {
                    let options =
                        UndoOptions { scope: UndoAspect::Files, ..UndoOptions::default() };
                    match app.engine().history().plan_undo(
                        ctx,
                        id,
                        &UndoTarget::From(first.id),
                        &options,
                    ) {
                        Ok(plan) => plan.contended,
                        Err(EngineError::NothingToUndo(_)) => Vec::new(),
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            stamp_seq(app, ctx, id, found)
        })
        .await
}
