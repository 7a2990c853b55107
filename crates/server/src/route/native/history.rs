//! Undo, redo, jump and checkpoints: a plan first, if it is asked for, then a report.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};
use turnstone_core::id::{MessageId, OperationId, PartId, SessionId, TurnId};
use turnstone_core::path::RelPath;
use turnstone_core::time::{Cursor, Seq};
use turnstone_engine::{
    Engine, EngineError, OperationReport, Point, Scope, UndoOptions, UndoPlan, Which, report_of,
};
use turnstone_store::Context;

use super::answer::Stamped;
use super::input::{Typed, whole};
use crate::app::App;
use crate::call::{Caller, Repeat};
use crate::error::ApiError;
use crate::route::session::session_id;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/turnstone/session/{session}/undo", post(undo))
        .route("/turnstone/session/{session}/redo", post(redo))
        .route("/turnstone/session/{session}/jump", post(jump))
        .route("/turnstone/session/{session}/checkpoint", get(checkpoints).post(checkpoint))
        .route("/turnstone/session/{session}/checkpoint/{name}", delete(remove_checkpoint))
}

/// What is taken back or brought back. Of `turn`, `from`, `message` and `part` at most one; none means
/// the newest turn that stands, for a redo what was taken back last.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Ask {
    /// This turn and no other.
    turn: Option<TurnId>,
    /// This turn and everything after it.
    from: Option<TurnId>,
    /// The turn this message begins, or the calls of this answer.
    message: Option<MessageId>,
    /// What this call did.
    part: Option<PartId>,
    /// `both` (the default), `files` or `conversation`.
    #[serde(default)]
    scope: Extent,
    /// Only changes a tool declared before it wrote.
    #[serde(default)]
    named_only: bool,
    /// Only these paths below the root, and what lies below them.
    #[serde(default)]
    paths: Vec<RelPath>,
    /// Turns of other sessions whose files go with them, so that nothing is contended.
    #[serde(default)]
    also: Vec<Also>,
    /// Answer with the plan and change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// Files, conversation, or both.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Extent {
    #[default]
    Both,
    Files,
    Conversation,
}

/// A turn of another session.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Also {
    /// The session.
    session: SessionId,
    /// The turn.
    turn: TurnId,
}

/// What would be done, or what was done.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    /// Nothing has changed.
    Foreseen {
        /// What would happen.
        plan: Box<UndoPlan>,
    },
    /// It is done.
    Done {
        /// What happened.
        report: Box<OperationReport>,
        /// True if every path that was to be moved was.
        complete: bool,
    },
}

impl Ask {
    fn which(&self) -> Result<Which, ApiError> {
        let chosen = [
            self.turn.clone().map(Which::Turn),
            self.from.clone().map(Which::From),
            self.message.clone().map(Which::Message),
            self.part.clone().map(Which::Part),
        ];
        let mut chosen = chosen.into_iter().flatten();
        match (chosen.next(), chosen.next()) {
            (None, _) => Ok(Which::Last),
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => {
                Err(ApiError::payload("name one of `turn`, `from`, `message` and `part`"))
            }
        }
    }

    fn options(&self) -> UndoOptions {
        UndoOptions {
            scope: match self.scope {
                Extent::Both => Scope::Both,
                Extent::Files => Scope::Files,
                Extent::Conversation => Scope::Conversation,
            },
            named_only: self.named_only,
            paths: self.paths.clone(),
            also: self.also.iter().map(|it| (it.session.clone(), it.turn.clone())).collect(),
        }
    }
}

/// `POST /turnstone/session/{sessionID}/undo`
async fn undo(
    State(app): State<App>,
    Repeat(ctx, began): Repeat,
    Path(session): Path<String>,
    Typed(ask): Typed<Ask>,
) -> Result<Stamped<Outcome>, ApiError> {
    app.take(Repeat(ctx, began), &session, ask, Engine::plan_undo).await
}

/// `POST /turnstone/session/{sessionID}/redo`
async fn redo(
    State(app): State<App>,
    Repeat(ctx, began): Repeat,
    Path(session): Path<String>,
    Typed(ask): Typed<Ask>,
) -> Result<Stamped<Outcome>, ApiError> {
    app.take(Repeat(ctx, began), &session, ask, Engine::plan_redo).await
}

/// How the engine plans what is taken back or brought back.
type Planner =
    fn(&Engine, &Context, &SessionId, &Which, &UndoOptions) -> Result<UndoPlan, EngineError>;

/// Where to. Of the points exactly one.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Jump {
    /// Before this turn began.
    before: Option<TurnId>,
    /// After this turn ended.
    after: Option<TurnId>,
    /// After this operation.
    operation: Option<OperationId>,
    /// At the newest checkpoint of this name.
    checkpoint: Option<String>,
    /// At this boundary of the session's stream.
    #[serde(default, deserialize_with = "whole")]
    seq: Option<i64>,
    /// `both` (the default), `files` or `conversation`.
    #[serde(default)]
    scope: Extent,
    /// Answer with the plan and change nothing.
    #[serde(default)]
    dry_run: bool,
}

impl Jump {
    fn point(&self) -> Result<Point, ApiError> {
        let chosen = [
            self.before.clone().map(Point::Before),
            self.after.clone().map(Point::After),
            self.operation.clone().map(Point::Operation),
            self.checkpoint.clone().map(Point::Checkpoint),
            self.seq.map(|seq| Point::Seq(Seq(seq))),
        ];
        let mut chosen = chosen.into_iter().flatten();
        match (chosen.next(), chosen.next()) {
            (Some(one), None) => Ok(one),
            _ => Err(ApiError::payload(
                "name one of `before`, `after`, `operation`, `checkpoint` and `seq`",
            )),
        }
    }
}

/// `POST /turnstone/session/{sessionID}/jump`
async fn jump(
    State(app): State<App>,
    Repeat(ctx, began): Repeat,
    Path(session): Path<String>,
    Typed(ask): Typed<Jump>,
) -> Result<Stamped<Outcome>, ApiError> {
    let (id, point) = (session_id(&session)?, ask.point()?);
    let options = Ask { scope: ask.scope, ..Ask::default() }.options();
    app.blocking(move |app| {
        app.operate(&ctx, &id, began, ask.dry_run, |ctx| {
            app.engine().plan_jump(ctx, &id, &point, &options)
        })
    })
    .await
}

impl App {
    /// Takes back or brings back what is asked for, as `plan` plans it.
    async fn take(
        &self,
        Repeat(ctx, began): Repeat,
        session: &str,
        ask: Ask,
        plan: Planner,
    ) -> Result<Stamped<Outcome>, ApiError> {
        let (id, which) = (session_id(session)?, ask.which()?);
        self.blocking(move |app| {
            app.operate(&ctx, &id, began, ask.dry_run, |ctx| {
                let planned = plan(app.engine(), ctx, &id, &which, &ask.options());
                if let Err(EngineError::NothingToUndo(_) | EngineError::NothingToRedo(_)) = planned
                {
                    app.check_named(ctx, &id, &which)?;
                }
                planned
            })
        })
        .await
    }

    /// What is not there is another thing than what has nothing to take back.
    fn check_named(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
    ) -> Result<(), EngineError> {
        let found = self.engine().store().read(ctx, |r| match which {
            Which::Message(message) => r.get_message(session, message).map(drop),
            Which::Part(part) => r.get_part(session, part).map(drop),
            Which::Last | Which::Turn(_) | Which::From(_) => Ok(()),
        });
        Ok(found?)
    }

    /// Plans an operation and carries it out, once.
    fn operate(
        &self,
        ctx: &Context,
        session: &SessionId,
        began: Option<Cursor>,
        dry_run: bool,
        plan: impl FnOnce(&Context) -> Result<UndoPlan, EngineError>,
    ) -> Result<Stamped<Outcome>, ApiError> {
        if let Some(began) = began {
            let report = self.finished(ctx, session, began)?;
            let complete = report.is_complete();
            return self.stamped(
                ctx,
                session,
                Outcome::Done { report: Box::new(report), complete },
            );
        }
        if dry_run {
            let plan = Box::new(plan(ctx)?);
            return self.stamped(ctx, session, Outcome::Foreseen { plan });
        }
        self.expected(ctx, session)?;
        self.idle(ctx, session)?;
        let report = self.engine().apply(ctx, &plan(ctx)?)?;
        let complete = report.is_complete();
        self.stamped(ctx, session, Outcome::Done { report: Box::new(report), complete })
    }

    /// The report of an operation that was cut off after it had begun: recovery finishes it.
    fn finished(
        &self,
        ctx: &Context,
        session: &SessionId,
        began: Cursor,
    ) -> Result<OperationReport, ApiError> {
        self.engine().recover(ctx)?;
        let operations = self.engine().store().read(ctx, |r| r.operations(session))?;
        let found = operations.into_iter().find(|operation| operation.planned >= began);
        let report = found.map(|operation| report_of(&operation)).transpose()?.flatten();
        report.ok_or_else(|| ApiError::NotFound("The operation of this key not found".to_owned()))
    }
}

/// A name for where the session stands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewCheckpoint {
    /// The name.
    name: String,
}

/// A point with a name.
#[derive(Serialize)]
struct Checkpoint {
    /// The operation that named it.
    operation: OperationId,
    /// The name.
    name: String,
    /// When, in milliseconds.
    time: i64,
}

impl From<turnstone_engine::Checkpoint> for Checkpoint {
    fn from(found: turnstone_engine::Checkpoint) -> Self {
        Self { operation: found.operation, name: found.name, time: found.time.0 }
    }
}

/// `POST /turnstone/session/{sessionID}/checkpoint`
async fn checkpoint(
    State(app): State<App>,
    Repeat(ctx, began): Repeat,
    Path(session): Path<String>,
    Typed(body): Typed<NewCheckpoint>,
) -> Result<Stamped<Checkpoint>, ApiError> {
    let id = session_id(&session)?;
    if body.name.is_empty() || body.name.chars().any(char::is_control) {
        return Err(ApiError::payload("a name has printable characters, at least one"));
    }
    app.blocking(move |app| {
        let operation = match began {
            None => app.engine().checkpoint(&ctx, &id, &body.name)?,
            // One event plans it and one ends it, in one transaction: it is there.
            Some(began) => {
                let all = app.engine().store().read(&ctx, |r| r.operations(&id))?;
                let found = all.into_iter().find(|operation| operation.planned >= began);
                let missing = || ApiError::NotFound("Checkpoint not found".to_owned());
                found.ok_or_else(missing)?.id
            }
        };
        let made = Checkpoint { operation, name: body.name, time: ctx.now.0 };
        app.stamped(&ctx, &id, made)
    })
    .await
}

/// `DELETE /turnstone/session/{sessionID}/checkpoint/{name}`
///
/// Every checkpoint of that name; the points stay reachable by what happened there.
async fn remove_checkpoint(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path((session, name)): Path<(String, String)>,
) -> Result<Stamped<Vec<Checkpoint>>, ApiError> {
    let id = session_id(&session)?;
    app.blocking(move |app| {
        app.expected(&ctx, &id)?;
        let removed = app.engine().remove_checkpoint(&ctx, &id, &name)?;
        app.stamped(&ctx, &id, removed.into_iter().map(Checkpoint::from).collect())
    })
    .await
}

/// `GET /turnstone/session/{sessionID}/checkpoint`
async fn checkpoints(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
) -> Result<Stamped<Vec<Checkpoint>>, ApiError> {
    let id = session_id(&session)?;
    app.blocking(move |app| {
        let found = app.engine().checkpoints(&ctx, &id)?;
        app.stamped(&ctx, &id, found.into_iter().map(Checkpoint::from).collect())
    })
    .await
}
