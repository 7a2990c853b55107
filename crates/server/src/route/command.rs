//! Commands: templates that become prompts.

use std::path::Path as FilePath;

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{AgentPart, Extra, PartBody, Session, Subtask, Text};

use super::session::session_id;
use crate::app::App;
use crate::call::Repeat;
use crate::config::{Agent, Command};
use crate::error::ApiError;
use crate::input::{Body, Fields};
use crate::prompt::{
    FileInput, Filled, PartInput, PartKind, PromptInput, Wanted, mentions, parameters,
};

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/session/{session}/command", post(command))
        .route("/session/{session}/init", post(init))
}

/// Which command, and what it is told.
struct Called {
    message: Option<MessageId>,
    wanted: Wanted,
    name: String,
    arguments: String,
    parts: Vec<PartInput>,
}

impl Called {
    fn read(mut fields: Fields) -> Result<Self, ApiError> {
        let parts = match fields.has("parts") {
            true => fields.need_objects("parts")?,
            false => Vec::new(),
        };
        let model = match fields.text("model")? {
            None => None,
            Some(text) => match text.split_once('/') {
                Some((provider, model)) => Some((provider.to_owned(), model.to_owned())),
                None => {
                    let value = Value::from(text);
                    return Err(fields.refuse("model", "\"provider/model\"", &value));
                }
            },
        };
        let variant = fields.text("variant")?;
        Ok(Self {
            message: fields.id("messageID", "msg")?,
            wanted: Wanted { agent: fields.text("agent")?, model, variant },
            arguments: fields.need_text("arguments")?,
            name: fields.need_text("command")?,
            parts: parts.into_iter().map(PartInput::read).collect::<Result<_, _>>()?,
        })
    }
}

/// `POST /session/{sessionID}/command`
async fn command(
    State(app): State<App>,
    repeat: Repeat,
    Path(session): Path<String>,
    Body(fields): Body,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    Ok(Json(run(&app, &repeat, id, Called::read(fields)?).await?))
}

/// `POST /session/{sessionID}/init`: the command of that name.
async fn init(
    State(app): State<App>,
    repeat: Repeat,
    Path(session): Path<String>,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let id = session_id(&session)?;
    let model = Some((fields.need_text("providerID")?, fields.need_text("modelID")?));
    let called = Called {
        message: Some(fields.need_id("messageID", "msg")?),
        wanted: Wanted { agent: None, model, variant: None },
        name: "init".to_owned(),
        arguments: String::new(),
        parts: Vec::new(),
    };
    run(&app, &repeat, id, called).await?;
    Ok(Json(true))
}

async fn run(app: &App, repeat: &Repeat, id: SessionId, called: Called) -> Result<Value, ApiError> {
    let (name, arguments) = (called.name.clone(), called.arguments.clone());
    let (fill, of) = (repeat.clone(), id.clone());
    let (session, asked) = app.blocking(move |app| prompt_of(app, &fill, &of, called)).await?;
    let answer = match asked {
        Asked::New(asked) => app.prompt(repeat, &id, *asked).await?,
        Asked::Earlier(message) => app.answer_again(&repeat.0, &id, message).await?,
    };
    let said = json!({ "name": name, "sessionID": id.as_str(), "arguments": arguments,
                       "messageID": answer["info"]["id"] });
    app.blocking(move |app| {
        app.hub().publish(&session.directory, "command.executed", said);
        Ok(())
    })
    .await?;
    Ok(answer)
}

/// What a command is to a session.
enum Asked {
    /// A prompt.
    New(Box<PromptInput>),
    /// A prompt that an earlier try of this request stored: its commands ran then (R43).
    Earlier(MessageId),
}

/// The prompt a command stands for.
fn prompt_of(
    app: &App,
    repeat: &Repeat,
    id: &SessionId,
    called: Called,
) -> Result<(Session, Asked), ApiError> {
    let ctx = &repeat.0;
    let session = app.engine().store().read(ctx, |r| r.get_session(id))?;
    if let Some(message) = app.find_earlier(repeat, id)? {
        return Ok((session, Asked::Earlier(message)));
    }
    // What a template runs must not run for a request that is refused.
    app.expected(ctx, id)?;
    let place = app.place(ctx, FilePath::new(&session.directory))?;
    let config = app.config(&place)?;
    let (commands, agents) = (config.commands()?, config.agents()?);
    let Some(command) = commands.iter().find(|command| command.name == called.name) else {
        let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
        let (wanted, names) = (Value::from(called.name), names.join(", "));
        return Err(ApiError::payload(format!(
            "Command not found: {wanted}. Available commands: {names}\n  at [\"command\"]"
        )));
    };
    let text = filled(app, &session, command, &called.arguments);
    let own_model = command.model.as_deref().and_then(|model| model.split_once('/'));
    let own_model = own_model.map(|(provider, model)| (provider.to_owned(), model.to_owned()));
    let model = own_model.or(called.wanted.model.clone());
    let agent = command.agent.clone().or(called.wanted.agent.clone());
    let worker = agents.iter().find(|known| Some(&known.name) == agent.as_ref());
    let is_subtask = command.subtask.unwrap_or(worker.is_some_and(|it| it.mode == "subagent"));
    let (parts, wanted) = if is_subtask {
        let model = match model {
            Some(model) => Some(model),
            None => {
                let chosen = app.choose(ctx, &session, Some(&place), &called.wanted)?.model;
                Some((chosen.provider, chosen.model))
            }
        };
        let subtask = subtask(command, agent.as_deref(), model.as_ref(), text);
        let parts = vec![PartInput::plain(PartBody::Subtask(subtask))];
        (parts, Wanted { model: None, ..called.wanted })
    } else {
        let mut parts = said(&text, &place.root, &agents);
        parts.extend(called.parts);
        (parts, Wanted { agent, model, variant: called.wanted.variant })
    };
    let asked = PromptInput { message: called.message, wanted, ..PromptInput::of(parts) };
    Ok((session, Asked::New(Box::new(asked))))
}

fn filled(app: &App, session: &Session, command: &Command, arguments: &str) -> String {
    let pieces = Filled::pieces(&command.template, arguments);
    let parameters = parameters(&command.template, arguments);
    let text = pieces.into_iter().map(|piece| match piece {
        Filled::Text(text) => text,
        Filled::Output(line) => app.output_of(session, &line, (arguments, &parameters)),
    });
    text.collect::<String>().trim().to_owned()
}

fn subtask(
    command: &Command,
    agent: Option<&str>,
    model: Option<&(String, String)>,
    prompt: String,
) -> Subtask {
    Subtask {
        prompt,
        description: command.description.clone().unwrap_or_default(),
        agent: agent.unwrap_or("general").to_owned(),
        model: model.map(|(provider, model)| json!({ "providerID": provider, "modelID": model })),
        command: Some(command.name.clone()),
        extra: Extra::new(),
    }
}

/// A text, and what it mentions: files of the project, or agents.
fn said(text: &str, root: &FilePath, agents: &[Agent]) -> Vec<PartInput> {
    let whole = Text { text: text.to_owned(), ..Text::default() };
    let mut parts = vec![PartInput::plain(PartBody::Text(whole))];
    for name in mentions(text) {
        // Where it really is decides; whoever reads it looks again.
        let found = fs_err::canonicalize(root.join(&name)).ok();
        if let Some(path) = found.filter(|path| path.starts_with(root)) {
            let url = format!("file://{}", encoded(&path));
            let mime = mime(&path).to_owned();
            let file = FileInput { mime, filename: Some(name), url, source: None };
            parts.push(PartInput { id: None, kind: PartKind::File(file) });
        } else if agents.iter().any(|agent| agent.name == name) {
            let agent = AgentPart { name, source: None, extra: Extra::new() };
            parts.push(PartInput::plain(PartBody::Agent(agent)));
        }
    }
    parts
}

/// A path as a URL has it.
fn encoded(path: &FilePath) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::CONTROLS.add(b' ').add(b'?').add(b'#').add(b'%').add(b'"');
    percent_encoding::utf8_percent_encode(&path.to_string_lossy(), KEPT).to_string()
}

/// The media type of a path: only what models take as it is has one of its own.
fn mime(path: &FilePath) -> &'static str {
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
