//! The agents.

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use crate::app::App;
use crate::call::Caller;
use crate::config::{Agent, ShownConfig};
use crate::error::ApiError;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/agent", get(list))
}

/// `GET /agent`
async fn list(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<ShownConfig, ApiError> {
    app.blocking(move |app| {
        let agents = app.asked_config(&ctx, &asked)?.agents()?;
        Ok(ShownConfig::new(agents.iter().map(Agent::shown).collect()))
    })
    .await
}
