//! Commands: templates that become prompts.

use std::path::Path as FilePath;

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_config::{AgentMode, AgentProfile, CommandDefinition};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{AgentPart, ExtraFields, PartBody, Session, SubtaskPart, TextPart};

use crate::app::AppState;
use crate::configuration::project_config;
use crate::error::ApiError;
use crate::project_directory::require_project_directory;
use crate::prompt::{
    FileInput, PartInput, PartInputKind, PromptInput, RequestedAgent, TemplatePiece, choose_agent,
    find_earlier_prompt, find_mentions, prompt_and_wait, shell_parameters, wait_for_earlier_answer,
};
use crate::request_context::RetryAwareContext;
use crate::request_input::{JsonBody, JsonFields};
use crate::request_scope::SessionRequest;
use crate::session_revert::check_expected_seq;
use crate::shell_command::template_output;
use crate::wire_json::MessageResponse;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/command", post(command))
        .route("/session/{session}/init", post(init))
}

/// Which command, with which arguments.
struct CommandCall {
    message: Option<MessageId>,
    wanted: RequestedAgent,
    name: String,
    arguments: String,
    parts: Vec<PartInput>,
}

impl CommandCall {
    fn parse(mut fields: JsonFields) -> Result<Self, ApiError> {
        let parts = match fields.has("parts") {
            true => fields.require_objects("parts")?,
            false => Vec::new(),
        };
        let model = match fields.text("model")? {
            None => None,
            Some(text) => match text.split_once('/') {
                Some((provider, model)) => Some((provider.to_owned(), model.to_owned())),
                None => {
                    let value = Value::from(text);
                    return Err(fields.invalid_field("model", "\"provider/model\"", &value));
                }
            },
        };
        let variant = fields.text("variant")?;
        Ok(Self {
            message: fields.id("messageID", "msg")?,
            wanted: RequestedAgent { agent: fields.text("agent")?, model, variant },
            arguments: fields.require_text("arguments")?,
            name: fields.require_text("command")?,
            parts: parts.into_iter().map(PartInput::parse).collect::<Result<_, _>>()?,
        })
    }
}

/// `POST /session/{sessionID}/command`
async fn command(
    SessionRequest { app, caller, id }: SessionRequest<RetryAwareContext>,
    JsonBody(fields): JsonBody,
) -> Result<Json<MessageResponse>, ApiError> {
    Ok(Json(run_command(&app, &caller, id, CommandCall::parse(fields)?).await?))
}

/// `POST /session/{sessionID}/init`: the command of that name.
async fn init(
    SessionRequest { app, caller, id }: SessionRequest<RetryAwareContext>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let model = Some((fields.require_text("providerID")?, fields.require_text("modelID")?));
    let called = CommandCall {
        message: Some(fields.require_id("messageID", "msg")?),
        wanted: RequestedAgent { agent: None, model, variant: None },
        name: "init".to_owned(),
        arguments: String::new(),
        parts: Vec::new(),
    };
    run_command(&app, &caller, id, called).await?;
    Ok(Json(true))
}

async fn run_command(
    app: &AppState,
    repeat: &RetryAwareContext,
    id: SessionId,
    called: CommandCall,
) -> Result<MessageResponse, ApiError> {
    let (name, arguments) = (called.name.clone(), called.arguments.clone());
    let (fill, of) = (repeat.clone(), id.clone());
    let (session, asked) =
        app.run_blocking(move |app| build_command_prompt(app, &fill, &of, called)).await?;
    let answer = match asked {
        CommandPrompt::New(asked) => prompt_and_wait(app, repeat, &id, *asked).await?,
        CommandPrompt::Earlier(message) => {
            wait_for_earlier_answer(app, &repeat.0, &id, message).await?
        }
    };
    let said = json!({ "name": name, "sessionID": id.as_str(), "arguments": arguments,
                       "messageID": answer.info.field("id") });
    app.run_blocking(move |app| {
        app.hub().publish(&session.directory, "command.executed", said);
        Ok(())
    })
    .await?;
    Ok(answer)
}

/// What a command is to a session.
enum CommandPrompt {
    /// A prompt.
    New(Box<PromptInput>),
    /// A prompt that an earlier try of this request stored: its commands ran then (R43).
    Earlier(MessageId),
}

/// The prompt of a command.
fn build_command_prompt(
    app: &AppState,
    repeat: &RetryAwareContext,
    id: &SessionId,
    called: CommandCall,
) -> Result<(Session, CommandPrompt), ApiError> {
    let ctx = &repeat.0;
    let session = app.engine().store().read(ctx, |r| r.sessions().get(id))?;
    if let Some(message) = find_earlier_prompt(app, repeat, id)? {
        return Ok((session, CommandPrompt::Earlier(message)));
    }
    // What a template runs must not run for a request that is refused.
    check_expected_seq(app, ctx, id)?;
    let place = require_project_directory(app, ctx, FilePath::new(&session.directory))?;
    let config = project_config(app, &place)?;
    let (commands, agents) = (config.commands(), config.agents());
    let Some(command) = commands.iter().find(|command| command.name == called.name) else {
        let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
        let (wanted, names) = (Value::from(called.name), names.join(", "));
        return Err(ApiError::invalid_payload(format!(
            "Command not found: {wanted}. Available commands: {names}\n  at [\"command\"]"
        )));
    };
    let text = fill_template(app, &session, command, &called.arguments);
    let own_model = command.model.as_deref().and_then(|model| model.split_once('/'));
    let own_model = own_model.map(|(provider, model)| (provider.to_owned(), model.to_owned()));
    let model = own_model.or(called.wanted.model.clone());
    let agent = command.agent.clone().or(called.wanted.agent.clone());
    let worker = agents.iter().find(|known| Some(&known.name) == agent.as_ref());
    let is_subtask =
        command.subtask.unwrap_or(worker.is_some_and(|it| it.mode == AgentMode::Subagent));
    let (parts, wanted) = if is_subtask {
        let model = match model {
            Some(model) => Some(model),
            None => {
                let chosen = choose_agent(app, ctx, &session, Some(&place), &called.wanted)?.model;
                Some((chosen.provider, chosen.model))
            }
        };
        let subtask = subtask(command, agent.as_deref(), model.as_ref(), text);
        let parts = vec![PartInput::plain(PartBody::Subtask(subtask))];
        (parts, RequestedAgent { model: None, ..called.wanted })
    } else {
        let mut parts = text_with_mentions(&text, &place.root, agents);
        parts.extend(called.parts);
        (parts, RequestedAgent { agent, model, variant: called.wanted.variant })
    };
    let asked = PromptInput {
        message: called.message,
        requested_agent: wanted,
        ..PromptInput::from_parts(parts)
    };
    Ok((session, CommandPrompt::New(Box::new(asked))))
}

fn fill_template(
    app: &AppState,
    session: &Session,
    command: &CommandDefinition,
    arguments: &str,
) -> String {
    let pieces = TemplatePiece::fill(&command.template, arguments);
    let parameters = shell_parameters(&command.template, arguments);
    let text = pieces.into_iter().map(|piece| match piece {
        TemplatePiece::Text(text) => text,
        TemplatePiece::Output(line) => {
            template_output(app, session, &line, (arguments, &parameters))
        }
    });
    text.collect::<String>().trim().to_owned()
}

fn subtask(
    command: &CommandDefinition,
    agent: Option<&str>,
    model: Option<&(String, String)>,
    prompt: String,
) -> SubtaskPart {
    SubtaskPart {
        prompt,
        description: command.description.clone().unwrap_or_default(),
        agent: agent.unwrap_or("general").to_owned(),
        model: model.map(|(provider, model)| json!({ "providerID": provider, "modelID": model })),
        command: Some(command.name.clone()),
        extra: ExtraFields::new(),
    }
}

/// A text, and what it mentions: files of the project, or agents.
fn text_with_mentions(text: &str, root: &FilePath, agents: &[AgentProfile]) -> Vec<PartInput> {
    let whole = TextPart { text: text.to_owned(), ..TextPart::default() };
    let mut parts = vec![PartInput::plain(PartBody::Text(whole))];
    for name in find_mentions(text) {
        // The real path decides; it is checked again when the file is read.
        let found = fs_err::canonicalize(root.join(&name)).ok();
        if let Some(path) = found.filter(|path| path.starts_with(root)) {
            let url = format!("file://{}", encode_path(&path));
            let mime = prompt_media_type(&path).to_owned();
            let file = FileInput { mime, filename: Some(name), url, source: None };
            parts.push(PartInput { id: None, kind: PartInputKind::File(file) });
        } else if agents.iter().any(|agent| agent.name == name) {
            let agent = AgentPart { name, source: None, extra: ExtraFields::new() };
            parts.push(PartInput::plain(PartBody::Agent(agent)));
        }
    }
    parts
}

/// A path as a URL has it.
fn encode_path(path: &FilePath) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::CONTROLS.add(b' ').add(b'?').add(b'#').add(b'%').add(b'"');
    percent_encoding::utf8_percent_encode(&path.to_string_lossy(), KEPT).to_string()
}

/// The media type of a path: only what models take as it is has one of its own.
fn prompt_media_type(path: &FilePath) -> &'static str {
    if path.is_dir() {
        return "application/x-directory";
    }
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    match ending.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("pdf") => "application/pdf",
        _ => "text/plain",
    }
}
