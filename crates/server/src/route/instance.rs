//! Starting anew: what is remembered of directories is forgotten, and clients are told.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;

use crate::app::App;
use crate::error::ApiError;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/instance/dispose", post(dispose))
        .route("/global/dispose", post(dispose_all))
}

/// `POST /instance/dispose`
async fn dispose(State(app): State<App>, asked: Asked) -> Result<Json<bool>, ApiError> {
    app.blocking(move |app| {
        app.places().forget();
        let directory = asked.directory.to_string_lossy();
        let told = json!({ "directory": directory });
        app.hub().publish(&asked.directory, "server.instance.disposed", &told);
        Ok(Json(true))
    })
    .await
}

/// `POST /global/dispose`
async fn dispose_all(State(app): State<App>) -> Result<Json<bool>, ApiError> {
    app.blocking(|app| {
        app.places().forget();
        app.hub().publish_globally("global.disposed", json!({}));
        Ok(Json(true))
    })
    .await
}
