//! Turns, run from outside: begun, kept alive, taken over, ended.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::Failure;
use turnstone_core::turn::{Outcome, TurnState};
use turnstone_core::wire::{self, Mode};
use turnstone_engine::{Prompt, Turn};
use turnstone_store::{Context, StoreError, TurnRow};

use super::answer::Stamped;
use super::input::Typed;
use crate::app::App;
use crate::call::{Caller, Repeat};
use crate::error::ApiError;
use crate::held::Using;
use crate::input::parse_id;
use crate::route::session::session_id;
use crate::show::with_parts;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/turnstone/session/{session}/turn", post(begin))
        .route("/turnstone/session/{session}/resume", post(resume))
        .route("/turnstone/session/{session}/turn/{turn}/beat", post(beat))
        .route("/turnstone/session/{session}/turn/{turn}/steer", post(steer))
        .route("/turnstone/session/{session}/turn/{turn}/end", post(end))
}

/// The session and the turn of a path.
pub(super) fn names((session, turn): &(String, String)) -> Result<(SessionId, TurnId), ApiError> {
    Ok((session_id(session)?, parse_id("turnID", "trn", turn)?))
}

/// What begins a turn.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Begin {
    /// The prompt; without one the next of the inbox is taken up.
    prompt: Option<NewPrompt>,
}

/// What a person asks for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewPrompt {
    /// Its id; made if it is left out.
    #[serde(rename = "messageID")]
    message: Option<MessageId>,
    /// The agent that answers.
    agent: String,
    /// The model that answers: `providerID`, `modelID`, perhaps `variant`.
    model: Value,
    /// What it consists of, in OpenCode's shapes; ids may be left out.
    parts: Vec<Map<String, Value>>,
}

/// A turn that runs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Begun {
    /// The turn; nothing if the inbox is empty, or there is nothing to resume.
    turn: Option<TurnId>,
    /// How far it is.
    state: Option<&'static str>,
    /// The right to write it, sent as `x-turnstone-lease`; nothing if it is lost by now.
    lease: Option<String>,
    /// Within so many milliseconds the server must be called again for the turn.
    patience: u64,
    /// The message that began it, with its parts.
    prompt: Option<Value>,
}

/// `POST /turnstone/session/{sessionID}/turn`
async fn begin(
    State(app): State<App>,
    Repeat(ctx, began): Repeat,
    Path(session): Path<String>,
    Typed(body): Typed<Begin>,
) -> Result<Stamped<Begun>, ApiError> {
    let id = session_id(&session)?;
    app.blocking(move |app| {
        if let Some(began) = began {
            // The first try was cut off: what it began is known by where it began.
            let turns = app.engine().store().read(&ctx, |r| r.turns(&id))?;
            let row = turns.into_iter().find(|row| row.span.0 >= began);
            return app.show_turn(&ctx, &id, row.as_ref());
        }
        app.expected(&ctx, &id)?;
        let turn = match body.prompt {
            Some(new) => {
                let prompt = written(app, &ctx, &id, new)?;
                Some(app.engine().begin_turn(&ctx, prompt)?)
            }
            None => app.engine().next_turn(&ctx, &id)?,
        };
        app.show_held(&ctx, &id, turn)
    })
    .await
}

/// The prompt a client describes.
fn written(
    app: &App,
    ctx: &Context,
    session: &SessionId,
    new: NewPrompt,
) -> Result<Prompt, ApiError> {
    let id = new.message.map_or_else(|| app.engine().new_message_id(ctx, session), Ok)?;
    let info = json!({"id": id, "sessionID": session, "role": "user", "agent": new.agent,
        "model": new.model, "time": {"created": ctx.now.0}});
    let message = wire::parse_message(info).map_err(|e| ApiError::payload(e.to_string()))?;
    let mut parts = Vec::new();
    for part in new.parts {
        parts.push(app.part_from(ctx, session, &id, part)?);
    }
    Ok(Prompt { message, parts })
}

/// Whether a turn may be taken from whoever drives it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resume {
    /// Take a turn that runs in this server from its driver, who gets `FencedError` from then on.
    #[serde(default)]
    takeover: bool,
}

/// `POST /turnstone/session/{sessionID}/resume`
async fn resume(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(session): Path<String>,
    Typed(body): Typed<Resume>,
) -> Result<Stamped<Begun>, ApiError> {
    let id = session_id(&session)?;
    app.blocking(move |app| {
        app.expected(&ctx, &id)?;
        if body.takeover
            && let Some(turn) = app.work().turns.find(&id)
        {
            return app.show_held(&ctx, &id, Some(turn));
        }
        let resumed = app.engine().resume_turn(&ctx, &id)?;
        app.show_held(&ctx, &id, resumed.map(|it| it.turn))
    })
    .await
}

/// How long the server waits for the next call.
#[derive(Serialize)]
struct Patience {
    /// Milliseconds.
    patience: u64,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/beat`
async fn beat(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Stamped<Patience>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        app.driven(&ctx, &session, &turn, &headers)?;
        app.stamped(&ctx, &session, Patience { patience: app.settings().limits.patience })
    })
    .await
}

/// The prompts that steer a turn.
#[derive(Serialize)]
struct Steers {
    /// Messages with their parts, oldest first; input of the next model call.
    messages: Vec<Value>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/steer`
async fn steer(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Stamped<Steers>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        let taken = app.engine().take_steers(&ctx, held.turn())?;
        let read = app.engine().store().read(&ctx, |r| {
            taken.iter().map(|id| r.get_message(&session, id)).collect::<Result<Vec<_>, _>>()
        })?;
        app.stamped(&ctx, &session, Steers { messages: read.iter().map(with_parts).collect() })
    })
    .await
}

/// How a turn ends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct End {
    /// `completed`, `failed` or `aborted`.
    outcome: EndedAs,
    /// Why, if it failed: `name` and `data`.
    error: Option<Failure>,
}

/// The ends a driver may choose.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EndedAs {
    Completed,
    Failed,
    Aborted,
}

impl From<EndedAs> for Outcome {
    fn from(chosen: EndedAs) -> Self {
        match chosen {
            EndedAs::Completed => Self::Completed,
            EndedAs::Failed => Self::Failed,
            EndedAs::Aborted => Self::Aborted,
        }
    }
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/end`
///
/// Ending a turn again in the same way changes nothing, whoever asks.
async fn end(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<End>,
) -> Result<Stamped<Begun>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        let outcome = Outcome::from(body.outcome);
        let row = app.turn_row(&ctx, &session, &turn)?;
        if row.state != outcome.state() {
            let held = app.driven(&ctx, &session, &turn, &headers)?;
            app.end_driven(&ctx, held.turn(), outcome, body.error)?;
            // After this request: nobody waits for it.
            let (app, ctx, session) = (app.clone(), ctx.clone(), session.clone());
            tokio::task::spawn_blocking(move || app.tell_diff(&ctx, &session));
        }
        let row = app.turn_row(&ctx, &session, &turn)?;
        if row.state != outcome.state() {
            return Err(lost(&row));
        }
        app.show_turn(&ctx, &session, Some(&row))
    })
    .await
}

impl App {
    /// The row of a turn.
    pub(crate) fn turn_row(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<TurnRow, ApiError> {
        let turns = self.engine().store().read(ctx, |r| r.turns(session))?;
        let found = turns.into_iter().find(|row| row.id == *turn);
        found.ok_or_else(|| ApiError::NotFound(format!("Turn not found: {turn}")))
    }

    /// Answers with a turn that begins or goes on under a new lease.
    fn show_held(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: Option<Turn>,
    ) -> Result<Stamped<Begun>, ApiError> {
        let row = turn.as_ref().map(|turn| self.turn_row(ctx, session, &turn.id)).transpose()?;
        if let Some(turn) = turn {
            let found = self.engine().store().read(ctx, |r| r.get_session(session))?;
            self.hear_driver(std::path::Path::new(&found.directory));
            self.work().turns.hold(turn, found.directory.into(), self.now())?;
        }
        self.show_turn(ctx, session, row.as_ref())
    }

    /// Answers with a turn as it is; its lease only if this server still holds it.
    fn show_turn(
        &self,
        ctx: &Context,
        session: &SessionId,
        row: Option<&TurnRow>,
    ) -> Result<Stamped<Begun>, ApiError> {
        let read = |row: &TurnRow| match self
            .engine()
            .store()
            .read(ctx, |r| r.get_message(session, &row.message))
        {
            Ok(found) => Ok(Some(with_parts(&found))),
            Err(StoreError::NoMessage { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let begun = Begun {
            turn: row.map(|row| row.id.clone()),
            state: row.map(|row| row.state.as_str()),
            lease: row.and_then(|row| self.work().turns.token(&row.id)),
            patience: self.settings().limits.patience,
            prompt: row.map(read).transpose()?.flatten(),
        };
        self.stamped(ctx, session, begun)
    }

    /// The turn a request drives: its lease must be the present one.
    ///
    /// # Errors
    ///
    /// `FencedError` (409) if somebody else drives the turn, or nobody does since this server was
    /// restarted: a turn that waits can be resumed. `TurnEndedError` (410) if it is over.
    pub(super) fn driven(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &TurnId,
        headers: &HeaderMap,
    ) -> Result<Using, ApiError> {
        let token = headers.get("x-turnstone-lease").and_then(|value| value.to_str().ok());
        let Some(token) = token else {
            return Err(ApiError::query("Missing header x-turnstone-lease"));
        };
        if let Some(using) = self.work().turns.using(session, turn, token, self.settings().clock) {
            self.hear_driver(using.directory());
            self.expected(ctx, session)?;
            return Ok(using);
        }
        let row = self.turn_row(ctx, session, turn)?;
        Err(lost(&row))
    }

    /// Refuses a message that is no answer of this turn: its lease is about nothing else (R27).
    pub(super) fn check_answer(
        &self,
        ctx: &Context,
        turn: &Turn,
        message: &MessageId,
    ) -> Result<(), ApiError> {
        let store = self.engine().store();
        let found = store.read(ctx, |r| r.turn_of_answer(&turn.session, message))?;
        if found.as_ref() == Some(&turn.id) {
            return Ok(());
        }
        let owner = found.map_or_else(|| "no turn".to_owned(), |turn| turn.to_string());
        Err(StoreError::WrongOwner { kind: "message", id: message.to_string(), owner }.into())
    }

    /// A part of a message as a client describes it; ids may be left out.
    pub(super) fn part_from(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
        mut part: Map<String, Value>,
    ) -> Result<turnstone_core::model::Part, ApiError> {
        part.insert("sessionID".to_owned(), Value::from(session.as_str()));
        part.insert("messageID".to_owned(), Value::from(message.as_str()));
        if !part.contains_key("id") {
            let id = self.engine().new_part_id(ctx)?;
            part.insert("id".to_owned(), Value::from(id.as_str()));
        }
        let read = wire::parse_part(Value::Object(part), Mode::Strict);
        read.map_err(|error| ApiError::payload(error.to_string()))
    }
}

/// Why a lease is no good.
fn lost(row: &TurnRow) -> ApiError {
    use axum::http::StatusCode;
    let (status, tag, message) = match row.state {
        TurnState::Accepted | TurnState::Running | TurnState::Waiting => {
            (StatusCode::CONFLICT, "FencedError", "somebody else drives this turn by now")
        }
        TurnState::Completed | TurnState::Failed | TurnState::Aborted | TurnState::Interrupted => {
            (StatusCode::GONE, "TurnEndedError", "this turn is over")
        }
    };
    ApiError::tagged(status, tag, message)
        .with("turnID", row.id.as_str())
        .with("state", row.state.as_str())
}
