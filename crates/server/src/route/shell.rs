//! A command of a person, run as a turn.

use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::Session;
use turnstone_core::permission::CallerRole;
use turnstone_engine::{CommandExecution, RuleScope, ShellCommandOrigin};
use turnstone_store::Context;

use super::diff::publish_diff;
use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::find_project_directory;
use crate::prompt::{RequestedAgent, choose_agent, read_model};
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody, JsonFields};
use crate::request_scope::SessionRequest;
use crate::shell_command::run_command;
use crate::wire_json::{MessageResponse, message_response};

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/shell", post(shell))
}

/// What a client wants to be run.
struct SessionShellRequest {
    message: Option<MessageId>,
    wanted: RequestedAgent,
    command: String,
}

impl SessionShellRequest {
    fn parse(mut fields: JsonFields) -> Result<Self, ApiError> {
        let agent = Some(fields.require_text("agent")?);
        let model = read_model(&mut fields)?;
        Ok(Self {
            message: fields.id("messageID", "msg")?,
            wanted: RequestedAgent { agent, model, variant: None },
            command: fields.require_text("command")?,
        })
    }
}

/// `POST /session/{sessionID}/shell`
async fn shell(
    SessionRequest { app, caller: RequestContext(ctx), id }: SessionRequest,
    JsonBody(fields): JsonBody,
) -> Result<Json<MessageResponse>, ApiError> {
    let line = SessionShellRequest::parse(fields)?;
    let command = line.command.clone();
    let (begin, name) = (ctx.clone(), id.clone());
    let (session, execution) =
        app.run_blocking(move |app| begin_shell(app, &begin, &name, line)).await?;
    let (done, answer) = tokio::sync::oneshot::channel();
    let (worker, run) = (app.clone(), ctx.clone());
    // Its own thread: a command may run without end, and outlives the request.
    let thread = std::thread::Builder::new().name("turnstone-shell".to_owned());
    let started = thread.spawn(move || {
        let ended = run_command(&worker, &run, &session, execution, &command);
        drop(done.send(ended));
        publish_diff(&worker, &run, &session.id);
    });
    started.map_err(|error| ApiError::unexpected(&error))?;
    let answer = answer.await.map_err(|error| ApiError::unexpected(&error))??;
    app.run_blocking(move |app| {
        let found = app.engine().store().read(&ctx, |r| r.messages().get(&id, &answer))?;
        Ok(Json(message_response(&found)))
    })
    .await
}

fn begin_shell(
    app: &AppState,
    ctx: &Context,
    id: &SessionId,
    line: SessionShellRequest,
) -> Result<(Session, CommandExecution), ApiError> {
    let session = app.engine().store().read(ctx, |r| r.sessions().get(id))?;
    // What a person types is not judged by the rules for tools, as in OpenCode.
    if ctx.role != CallerRole::Person {
        let subject = RuleScope::Session { session: id, agent: line.wanted.agent.as_deref() };
        app.engine().permissions().check_command(ctx, subject, &line.command)?;
    }
    let place = find_project_directory(app, ctx, std::path::Path::new(&session.directory))?;
    let choice = choose_agent(app, ctx, &session, place.as_ref(), &line.wanted)?;
    app.watch_directory(std::path::Path::new(&session.directory));
    let root = place.map(|place| place.root.to_string_lossy().into_owned());
    let shell = ShellCommandOrigin {
        message: line.message,
        agent: choice.agent,
        model: choice.model,
        root: root.unwrap_or_else(|| session.directory.clone()),
    };
    let execution =
        app.engine().turns().commands().begin_shell(ctx, &session, shell, &line.command)?;
    app.runners().mark_command_running(&session.id);
    Ok((session, execution))
}
