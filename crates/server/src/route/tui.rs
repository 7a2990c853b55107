//! What one client tells the terminal client to do: passed on as events, never kept.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::SessionId;

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::{Body, Fields};
use crate::place::Asked;

/// How long a toast stays unless the client says otherwise, in milliseconds.
const TOAST: u64 = 5_000;

/// The commands of the terminal client by their older names.
const COMMANDS: [(&str, &str); 19] = [
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
    ("theme_list", "theme.list"),
    ("prompt_submit", "prompt.submit"),
    ("prompt_clear", "prompt.clear"),
    ("help", "help.show"),
];

pub(super) fn routes() -> Router<App> {
    let command = |name: &'static str| {
        post(move |State(app): State<App>, asked: Asked| async move {
            tell(app, asked, "tui.command.execute", json!({ "command": name })).await
        })
    };
    Router::new()
        .route("/tui/append-prompt", post(append))
        .route("/tui/open-help", command("help.show"))
        .route("/tui/open-sessions", command("session.list"))
        .route("/tui/open-themes", command("theme.list"))
        .route("/tui/open-models", command("model.list"))
        .route("/tui/submit-prompt", command("prompt.submit"))
        .route("/tui/clear-prompt", command("prompt.clear"))
        .route("/tui/execute-command", post(execute))
        .route("/tui/show-toast", post(toast))
        .route("/tui/select-session", post(select))
        .route("/tui/publish", post(publish))
}

async fn tell(
    app: App,
    asked: Asked,
    kind: &'static str,
    properties: Value,
) -> Result<Json<bool>, ApiError> {
    app.blocking(move |app| {
        app.hub().publish(&asked.directory, kind, &properties);
        Ok(Json(true))
    })
    .await
}

/// `POST /tui/append-prompt`
async fn append(
    State(app): State<App>,
    asked: Asked,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let text = fields.need_text("text")?;
    tell(app, asked, "tui.prompt.append", json!({ "text": text })).await
}

/// `POST /tui/execute-command`
async fn execute(
    State(app): State<App>,
    asked: Asked,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let named = fields.need_text("command")?;
    let known = COMMANDS.iter().find(|(older, _)| *older == named);
    // OpenCode sends no name at all for one it does not know; the client can at least be told which.
    let command = known.map_or(named, |(_, name)| (*name).to_owned());
    tell(app, asked, "tui.command.execute", json!({ "command": command })).await
}

fn toast_of(fields: &mut Fields) -> Result<Value, ApiError> {
    let title = fields.text("title")?;
    let message = fields.need_text("message")?;
    let variant = fields.need_text("variant")?;
    if !["info", "success", "warning", "error"].contains(&variant.as_str()) {
        let expected = "\"info\" | \"success\" | \"warning\" | \"error\"";
        return Err(fields.refuse("variant", expected, &variant.into()));
    }
    let duration = fields.count("duration")?.unwrap_or(TOAST);
    if duration == 0 {
        return Err(fields.refuse("duration", "a value greater than 0", &duration.into()));
    }
    let mut toast = json!({ "message": message, "variant": variant, "duration": duration });
    if let Some(title) = title {
        toast["title"] = Value::from(title);
    }
    Ok(toast)
}

/// `POST /tui/show-toast`
async fn toast(
    State(app): State<App>,
    asked: Asked,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let toast = toast_of(&mut fields)?;
    tell(app, asked, "tui.toast.show", toast).await
}

/// `POST /tui/select-session`
async fn select(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let id: SessionId = fields.need_id("sessionID", "ses")?;
    app.blocking(move |app| {
        app.engine().store().read(&ctx, |r| r.get_session(&id))?;
        let told = json!({ "sessionID": id.as_str() });
        app.hub().publish(&asked.directory, "tui.session.select", &told);
        Ok(Json(true))
    })
    .await
}

/// `POST /tui/publish`
async fn publish(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let kind = fields.need_text("type")?;
    let Some(mut inner) = fields.object("properties")? else {
        return Err(ApiError::payload("Missing key\n  at [\"properties\"]"));
    };
    let (kind, properties) = match kind.as_str() {
        "tui.prompt.append" => ("tui.prompt.append", json!({ "text": inner.need_text("text")? })),
        "tui.command.execute" => {
            ("tui.command.execute", json!({ "command": inner.need_text("command")? }))
        }
        "tui.toast.show" => ("tui.toast.show", toast_of(&mut inner)?),
        "tui.session.select" => {
            return select(State(app), Caller(ctx), asked, Body(inner)).await;
        }
        other => {
            return Err(fields.refuse("type", "an event of the terminal client", &other.into()));
        }
    };
    tell(app, asked, kind, properties).await
}
