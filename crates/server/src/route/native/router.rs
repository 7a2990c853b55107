//! All native routes in one table.

use axum::Router;

use super::{coverage, log, permission_ask, runner, server, step, timeline, tool, turn, undo};
use crate::app::AppState;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .merge(permission_ask::routes())
        .merge(coverage::routes())
        .merge(undo::routes())
        .merge(log::routes())
        .merge(runner::routes())
        .merge(server::routes())
        .merge(step::routes())
        .merge(timeline::routes())
        .merge(tool::routes())
        .merge(turn::routes())
}
