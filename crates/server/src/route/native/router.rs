//! All native routes in one table.

use axum::Router;

use super::{
    compaction, coverage, log, permission_ask, runner, server, step, step_usage, timeline, tool,
    turn, turn_details, turn_file, undo,
};
use crate::app::AppState;

pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .merge(permission_ask::routes())
        .merge(compaction::routes())
        .merge(coverage::routes())
        .merge(undo::routes())
        .merge(log::routes())
        .merge(runner::routes())
        .merge(server::routes())
        .merge(step::routes())
        .merge(step_usage::routes())
        .merge(timeline::routes())
        .merge(tool::routes())
        .merge(turn::routes())
        .merge(turn_details::routes())
        .merge(turn_file::routes())
}
