//! The commands a client can offer.

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use crate::app::App;
use crate::call::Caller;
use crate::config::{Command, ShownConfig};
use crate::error::ApiError;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/command", get(list))
}

/// `GET /command`
async fn list(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<ShownConfig, ApiError> {
    app.blocking(move |app| {
        let commands = app.asked_config(&ctx, &asked)?.commands()?;
        Ok(ShownConfig::new(commands.iter().map(Command::shown).collect()))
    })
    .await
}
