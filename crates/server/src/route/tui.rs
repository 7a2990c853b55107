//! What one client tells the terminal client to do: passed on as events, never kept.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::SessionId;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody, JsonFields};

/// How long a toast stays unless the client says otherwise, in milliseconds.
const TOAST_MS: u64 = 5_000;

/// The commands of the terminal client by their older names.
const OLDER_COMMAND_NAMES: [(&str, &str); 19] = [
    ("session_new", "session.new"),
    ("session_share", "session.share"),
    ("session_interrupt", "session.interrupt"),
    ("session_compact", "session.compact"),
    ("session_list", "session.list"),
    ("messages_page_up", "session.page.up"),
    ("messages_page_down", "session.page.down"),
    ("messages_line_up", "session.line.up"),
    ("messages_line_down", "session.line.down"),
    ("messages_half_page_up", "session.half.page.up"),
    ("messages_half_page_down", "session.half.page.down"),
    ("messages_first", "session.first"),
    ("messages_last", "session.last"),
    ("agent_cycle", "agent.cycle"),
    ("model_list", "model.list"),
    ("theme_list", "theme.switch"),
    ("prompt_submit", "prompt.submit"),
    ("prompt_clear", "prompt.clear"),
    ("help", "help.show"),
];

pub(super) fn routes() -> Router<AppState> {
    let command = |name: &'static str| {
        post(move |State(app): State<AppState>, asked: RequestedDirectory| async move {
            publish_to_tui(app, asked, "tui.command.execute", json!({ "command": name })).await
        })
    };
    Router::new()
        .route("/tui/append-prompt", post(append))
        .route("/tui/open-help", command("help.show"))
        .route("/tui/open-sessions", command("session.list"))
        .route("/tui/open-themes", command("theme.switch"))
        .route("/tui/open-models", command("model.list"))
        .route("/tui/submit-prompt", command("prompt.submit"))
        .route("/tui/clear-prompt", command("prompt.clear"))
        .route("/tui/execute-command", post(execute))
        .route("/tui/show-toast", post(toast))
        .route("/tui/select-session", post(select))
        .route("/tui/publish", post(publish))
}

async fn publish_to_tui(
    app: AppState,
    asked: RequestedDirectory,
    kind: &'static str,
    properties: Value,
) -> Result<Json<bool>, ApiError> {
    app.run_blocking(move |app| {
        app.hub().publish(&asked.directory, kind, &properties);
        Ok(Json(true))
    })
    .await
}

/// `POST /tui/append-prompt`
async fn append(
    State(app): State<AppState>,
    asked: RequestedDirectory,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let text = fields.require_text("text")?;
    publish_to_tui(app, asked, "tui.prompt.append", json!({ "text": text })).await
}

/// `POST /tui/execute-command`
async fn execute(
    State(app): State<AppState>,
    asked: RequestedDirectory,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let named = fields.require_text("command")?;
    let known = OLDER_COMMAND_NAMES.iter().find(|(older, _)| *older == named);
    // OpenCode sends no name for a command it does not know; here the client gets the name.
    let command = known.map_or(named, |(_, name)| (*name).to_owned());
    publish_to_tui(app, asked, "tui.command.execute", json!({ "command": command })).await
}

fn read_toast(fields: &mut JsonFields) -> Result<Value, ApiError> {
    let title = fields.text("title")?;
    let message = fields.require_text("message")?;
    let variant = fields.require_text("variant")?;
    if !["info", "success", "warning", "error"].contains(&variant.as_str()) {
        let expected = "\"info\" | \"success\" | \"warning\" | \"error\"";
        return Err(fields.invalid_field("variant", expected, &variant.into()));
    }
    let duration = fields.count("duration")?.unwrap_or(TOAST_MS);
    if duration == 0 {
        return Err(fields.invalid_field("duration", "a value greater than 0", &duration.into()));
    }
    let mut toast = json!({ "message": message, "variant": variant, "duration": duration });
    if let Some(title) = title {
        toast["title"] = Value::from(title);
    }
    Ok(toast)
}

/// `POST /tui/show-toast`
async fn toast(
    State(app): State<AppState>,
    asked: RequestedDirectory,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let toast = read_toast(&mut fields)?;
    publish_to_tui(app, asked, "tui.toast.show", toast).await
}

/// `POST /tui/select-session`
async fn select(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let id: SessionId = fields.require_id("sessionID", "ses")?;
    app.run_blocking(move |app| {
        app.engine().store().read(&ctx, |r| r.sessions().get(&id))?;
        let properties = json!({ "sessionID": id.as_str() });
        app.hub().publish(&asked.directory, "tui.session.select", &properties);
        Ok(Json(true))
    })
    .await
}

/// `POST /tui/publish`
async fn publish(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let kind = fields.require_text("type")?;
    let Some(mut inner) = fields.object("properties")? else {
        return Err(ApiError::invalid_payload("Missing key\n  at [\"properties\"]"));
    };
    let (kind, properties) = match kind.as_str() {
        "tui.prompt.append" => {
            ("tui.prompt.append", json!({ "text": inner.require_text("text")? }))
        }
        "tui.command.execute" => {
            ("tui.command.execute", json!({ "command": inner.require_text("command")? }))
        }
        "tui.toast.show" => ("tui.toast.show", read_toast(&mut inner)?),
        "tui.session.select" => {
            return select(State(app), RequestContext(ctx), asked, JsonBody(inner)).await;
        }
        other => {
            return Err(fields.invalid_field(
                "type",
                "an event of the terminal client",
                &other.into(),
            ));
        }
    };
    publish_to_tui(app, asked, kind, properties).await
}
