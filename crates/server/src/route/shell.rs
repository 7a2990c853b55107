//! A command of a person, run as a turn.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::Session;
use turnstone_engine::{Execution, Shell};
use turnstone_store::Context;

use super::session::session_id;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::{Body, Fields};
use crate::prompt::{Wanted, model};
use crate::show::with_parts;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/{session}/shell", post(shell))
}

/// What a client wants to be run.
struct Line {
    message: Option<MessageId>,
    wanted: Wanted,
    command: String,
}

impl Line {
    fn read(mut fields: Fields) -> Result<Self, ApiError> {
        let agent = Some(fields.need_text("agent")?);
        let model = model(&mut fields)?;
        Ok(Self {
            message: fields.id("messageID", "msg")?,
            wanted: Wanted { agent, model, variant: None },
            command: fields.need_text("command")?,
        })
    }
}

/// `POST /session/{sessionID}/shell`
async fn shell(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
    Body(fields): Body,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let line = Line::read(fields)?;
    let command = line.command.clone();
    let (begin, name) = (ctx.clone(), id.clone());
    let (session, execution) =
        app.blocking(move |app| begin_shell(app, &begin, &name, line)).await?;
    let (done, answer) = tokio::sync::oneshot::channel();
    let (worker, run) = (app.clone(), ctx.clone());
    // A thread of its own: a command may take for ever, and outlives the request.
    let thread = std::thread::Builder::new().name("turnstone-shell".to_owned());
    let started = thread.spawn(move || {
        let ended = worker.run_command(&run, &session, execution, &command);
        drop(done.send(ended));
        worker.tell_diff(&run, &session.id);
    });
    started.map_err(|error| ApiError::unexpected(&error))?;
    let answer = answer.await.map_err(|error| ApiError::unexpected(&error))??;
    app.blocking(move |app| {
        let found = app.engine().store().read(&ctx, |r| r.get_message(&id, &answer))?;
        Ok(Json(with_parts(&found)))
    })
    .await
}

fn begin_shell(
    app: &App,
    ctx: &Context,
    id: &SessionId,
    line: Line,
) -> Result<(Session, Execution), ApiError> {
    let session = app.engine().store().read(ctx, |r| r.get_session(id))?;
    let place = app.find_place(ctx, std::path::Path::new(&session.directory))?;
    let choice = app.choose(ctx, &session, place.as_ref(), &line.wanted)?;
    let root = place.map(|place| place.root.to_string_lossy().into_owned());
    let shell = Shell {
        message: line.message,
        agent: choice.agent,
        model: choice.model,
        root: root.unwrap_or_else(|| session.directory.clone()),
    };
    let execution = app.engine().begin_shell(ctx, &session, shell, &line.command)?;
    app.runners().began_command(&session.id);
    Ok((session, execution))
}
