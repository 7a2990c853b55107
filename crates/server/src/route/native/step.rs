//! Steps: one model call of a turn, its texts and what it cost.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::{MessageBody, Tokens};
use turnstone_engine::StepEnd;
use turnstone_store::{Reader, Tx};

use super::answer::Stamped;
use super::input::Typed;
use super::turn::names;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
use crate::input::parse_id;
use crate::route::session::session_id;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/step", post(begin))
        .route("/turnstone/session/{session}/turn/{turn}/step/{message}/end", post(end))
        .route("/turnstone/session/{session}/turn/{turn}/step/{message}/part", post(part))
        .route("/turnstone/session/{session}/turn/{turn}/delta", post(delta))
}

/// A model call that begins.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Begin {
    /// The id of the answer; made if it is left out.
    #[serde(rename = "messageID")]
    message: Option<MessageId>,
    /// The provider that answers.
    #[serde(rename = "providerID")]
    provider: String,
    /// The model that answers.
    #[serde(rename = "modelID")]
    model: String,
    /// The agent that answers.
    agent: String,
}

/// A model call that runs.
#[derive(Serialize)]
struct Begun {
    /// The answer it writes.
    #[serde(rename = "messageID")]
    message: MessageId,
    /// The tree of the worktree; nothing before there is a baseline.
    snapshot: Option<String>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/step`
async fn begin(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<Begin>,
) -> Result<Stamped<Begun>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        let mut answer = app.next_answer(&ctx, &session, &turn, body.message)?;
        let id = answer.id.clone();
        if let MessageBody::Assistant(said) = &mut answer.body {
            // A variant is one of the model that was asked.
            if said.provider != body.provider || said.model != body.model {
                said.variant = None;
            }
            (said.provider, said.model) = (body.provider, body.model);
            (said.mode, said.agent) = (body.agent.clone(), Some(body.agent));
        }
        let step = app.engine().begin_step(&ctx, held.turn(), answer)?;
        app.stamped(&ctx, &session, Begun { message: id, snapshot: step.snapshot })
    })
    .await
}

/// The session, the turn and the answer of a path.
type Names = (SessionId, TurnId, MessageId);

fn three((session, turn, message): &(String, String, String)) -> Result<Names, ApiError> {
    let turn = parse_id("turnID", "trn", turn)?;
    Ok((session_id(session)?, turn, parse_id("messageID", "msg", message)?))
}

/// How a model call ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct End {
    /// Why the model stopped: `stop`, `tool-calls`, …
    reason: String,
    /// What it cost.
    cost: Option<Number>,
    /// Its tokens.
    #[serde(default)]
    tokens: Tokens,
}

impl End {
    /// Nothing is paid back, and no token comes out of nowhere.
    fn check(&self) -> Result<(), ApiError> {
        let Tokens { total, input, output, reasoning, cache, .. } = &self.tokens;
        let counted = [input, output, reasoning, &cache.read, &cache.write];
        let mut all = counted.into_iter().chain(total).chain(&self.cost);
        match all.find(|number| number.as_f64().is_none_or(|it| it < 0.0)) {
            Some(number) => {
                Err(ApiError::payload(format!("Expected a value of 0 or more, got {number}")))
            }
            None => Ok(()),
        }
    }
}

/// A model call that is over.
#[derive(Serialize)]
struct Ended {
    /// The tree of the worktree; nothing before there is a baseline.
    snapshot: Option<String>,
    /// The files the turn itself changed in this step, whole paths.
    files: Vec<String>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/step/{messageID}/end`
async fn end(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<End>,
) -> Result<Stamped<Ended>, ApiError> {
    let (session, turn, message) = three(&path)?;
    body.check()?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        let step = app.engine().find_step(&ctx, held.turn(), &message)?;
        let cost = body.cost.unwrap_or_else(|| 0.into());
        let end = StepEnd { reason: body.reason, cost, tokens: body.tokens };
        let done = app.engine().end_step(&ctx, held.turn(), &step, &end)?;
        let files = done.files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        app.stamped(&ctx, &session, Ended { snapshot: done.snapshot, files })
    })
    .await
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/step/{messageID}/part`
///
/// Stores a part of the answer: all of it, as it is. A text that will be streamed begins empty.
async fn part(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<Map<String, Value>>,
) -> Result<Stamped<Value>, ApiError> {
    let (session, turn, message) = three(&path)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        app.check_answer(&ctx, held.turn(), &message)?;
        let part = app.part_from(&ctx, &session, &message, body)?;
        let shown = crate::show::part(&part);
        let put = move |tx: &Tx<'_>| tx.put_part(&part);
        app.engine().store().write(&held.turn().context(&ctx), put).wait()?;
        app.stamped(&ctx, &session, shown)
    })
    .await
}

/// Text that is streamed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delta {
    /// The part it belongs to: a text or a reasoning.
    #[serde(rename = "partID")]
    part: PartId,
    /// The text.
    text: String,
}

/// Text that is durable.
#[derive(Serialize)]
struct Appended {
    /// Its place in the log; nothing for an empty text.
    cursor: Option<i64>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/delta`
async fn delta(
    State(app): State<App>,
    Repeat(ctx, began): Repeat,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<Delta>,
) -> Result<Stamped<Appended>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        let cursor = match began {
            // The text was written with the mark that is known of it.
            Some(at) => Some(at.0),
            None => {
                let read = |r: &Reader<'_>| r.message_of_part(&session, &body.part);
                let message = app.engine().store().read(&ctx, read)?;
                app.check_answer(&ctx, held.turn(), &message)?;
                let done = app.engine().append_text(&ctx, held.turn(), &body.part, &body.text)?;
                done.map(|done| done.cursor.0)
            }
        };
        app.stamped(&ctx, &session, Appended { cursor })
    })
    .await
}
