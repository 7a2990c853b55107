//! The native routes below `/turnstone`: what an agent in any language needs to run turns, and what a
//! person needs to see and to take back what they did.
//!
//! Every answer about a session carries its sequence number as `ETag`; `If-Match` makes a change
//! depend on it, an `Idempotency-Key` makes it happen once.

mod answer;
mod ask;
mod coverage;
mod history;
mod input;
mod log;
mod runner;
mod step;
mod timeline;
mod tool;
mod turn;

use axum::Router;

use crate::app::App;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .merge(ask::routes())
        .merge(coverage::routes())
        .merge(history::routes())
        .merge(log::routes())
        .merge(runner::routes())
        .merge(step::routes())
        .merge(timeline::routes())
        .merge(tool::routes())
        .merge(turn::routes())
}
