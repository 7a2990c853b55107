//! All native routes in one table.

use axum::Router;

use super::{ask, coverage, history, log, runner, server, step, timeline, tool, turn};
use crate::app::App;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .merge(ask::routes())
        .merge(coverage::routes())
        .merge(history::routes())
        .merge(log::routes())
        .merge(runner::routes())
        .merge(server::routes())
        .merge(step::routes())
        .merge(timeline::routes())
        .merge(tool::routes())
        .merge(turn::routes())
}
