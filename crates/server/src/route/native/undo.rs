//! Undo, redo, jump and checkpoints: a plan first, if it is asked for, then a report.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{delete, get, post};
use serde::{Deserialize, Serialize};
use turnstone_core::id::{MessageId, OperationId, PartId, SessionId, TurnId};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::{LogCursor, SessionSeq};
use turnstone_engine::{
    EngineError, History, OperationReport, SessionPoint, UndoAspect, UndoOptions, UndoPlan,
    UndoTarget, decode_report,
};
use turnstone_store::Context;

use super::seq_stamped::{SeqStamped, stamp_seq};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::{RequestContext, RetryAwareContext};
use crate::route::session::session_id;
use crate::session_revert::{check_expected_seq, check_idle};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/undo", post(undo))
        .route("/turnstone/session/{session}/redo", post(redo))
        .route("/turnstone/session/{session}/jump", post(jump))
        .route("/turnstone/session/{session}/checkpoint", get(checkpoints).post(checkpoint))
        .route("/turnstone/session/{session}/checkpoint/{name}", delete(remove_checkpoint))
}

/// What is undone or redone. Of `turn`, `from`, `message` and `part` at most one; none means
/// the newest turn that is in effect, for a redo what was undone last.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UndoRequest {
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
    scope: RequestedScope,
    /// Only changes a tool declared before it wrote.
    #[serde(default)]
    named_only: bool,
    /// Only these paths below the root, and what lies below them.
    #[serde(default)]
    paths: Vec<RelPath>,
    /// Turns of other sessions whose files go with them, so that nothing is contended.
    #[serde(default)]
    also: Vec<AdditionalTurn>,
    /// Answer with the plan and change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// Files, conversation, or both.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RequestedScope {
    #[default]
    Both,
    Files,
    Conversation,
}

/// A turn of another session.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdditionalTurn {
    /// The session.
    session: SessionId,
    /// The turn.
    turn: TurnId,
}

/// What would be done, or what was done.
#[derive(Serialize)]
#[serde(untagged)]
enum UndoResponse {
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

impl UndoRequest {
    fn target(&self) -> Result<UndoTarget, ApiError> {
        let chosen = [
            self.turn.clone().map(UndoTarget::Turn),
            self.from.clone().map(UndoTarget::From),
            self.message.clone().map(UndoTarget::Message),
            self.part.clone().map(UndoTarget::Part),
        ];
        let mut chosen = chosen.into_iter().flatten();
        match (chosen.next(), chosen.next()) {
            (None, _) => Ok(UndoTarget::Last),
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => {
                Err(ApiError::invalid_payload("name one of `turn`, `from`, `message` and `part`"))
            }
        }
    }

    fn options(&self) -> UndoOptions {
        UndoOptions {
            during_turn: false,
            scope: match self.scope {
                RequestedScope::Both => UndoAspect::Both,
                RequestedScope::Files => UndoAspect::Files,
                RequestedScope::Conversation => UndoAspect::Conversation,
            },
            named_only: self.named_only,
            paths: self.paths.clone(),
            other_turns: self.also.iter().map(|it| (it.session.clone(), it.turn.clone())).collect(),
        }
    }
}

/// `POST /turnstone/session/{sessionID}/undo`
async fn undo(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(session): Path<String>,
    TypedBody(ask): TypedBody<UndoRequest>,
) -> Result<SeqStamped<UndoResponse>, ApiError> {
    undo_or_redo(&app, RetryAwareContext(ctx, began), &session, ask, History::plan_undo).await
}

/// `POST /turnstone/session/{sessionID}/redo`
async fn redo(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(session): Path<String>,
    TypedBody(ask): TypedBody<UndoRequest>,
) -> Result<SeqStamped<UndoResponse>, ApiError> {
    undo_or_redo(&app, RetryAwareContext(ctx, began), &session, ask, History::plan_redo).await
}

/// How the engine plans an undo or a redo.
type UndoPlanner =
    fn(&History, &Context, &SessionId, &UndoTarget, &UndoOptions) -> Result<UndoPlan, EngineError>;

/// Where to. Of the points exactly one.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JumpRequest {
    /// Before this turn began.
    before: Option<TurnId>,
    /// After this turn ended.
    after: Option<TurnId>,
    /// After this operation.
    operation: Option<OperationId>,
    /// At the newest checkpoint of this name.
    checkpoint: Option<String>,
    /// At this boundary of the session's stream.
    seq: Option<u32>,
    /// `both` (the default), `files` or `conversation`.
    #[serde(default)]
    scope: RequestedScope,
    /// Answer with the plan and change nothing.
    #[serde(default)]
    dry_run: bool,
}

impl JumpRequest {
    fn point(&self) -> Result<SessionPoint, ApiError> {
        let chosen = [
            self.before.clone().map(SessionPoint::Before),
            self.after.clone().map(SessionPoint::After),
            self.operation.clone().map(SessionPoint::Operation),
            self.checkpoint.clone().map(SessionPoint::Checkpoint),
            self.seq.map(|seq| SessionPoint::Seq(SessionSeq(seq.into()))),
        ];
        let mut chosen = chosen.into_iter().flatten();
        match (chosen.next(), chosen.next()) {
            (Some(one), None) => Ok(one),
            _ => Err(ApiError::invalid_payload(
                "name one of `before`, `after`, `operation`, `checkpoint` and `seq`",
            )),
        }
    }
}

/// `POST /turnstone/session/{sessionID}/jump`
async fn jump(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(session): Path<String>,
    TypedBody(ask): TypedBody<JumpRequest>,
) -> Result<SeqStamped<UndoResponse>, ApiError> {
    let (id, point) = (session_id(&session)?, ask.point()?);
    let options = UndoRequest { scope: ask.scope, ..UndoRequest::default() }.options();
    app.run_blocking(move |app| {
        run_operation(app, &ctx, &id, began, ask.dry_run, |ctx| {
            app.engine().history().plan_jump(ctx, &id, &point, &options)
        })
    })
    .await
}

/// Undoes or redoes what is asked for, as `plan` plans it.
async fn undo_or_redo(
    app: &AppState,
    RetryAwareContext(ctx, began): RetryAwareContext,
    session: &str,
    ask: UndoRequest,
    plan: UndoPlanner,
) -> Result<SeqStamped<UndoResponse>, ApiError> {
    let (id, which) = (session_id(session)?, ask.target()?);
    app.run_blocking(move |app| {
        run_operation(app, &ctx, &id, began, ask.dry_run, |ctx| {
            let planned = plan(app.engine().history(), ctx, &id, &which, &ask.options());
            if let Err(EngineError::NothingToUndo(_) | EngineError::NothingToRedo(_)) = planned {
                check_target_exists(app, ctx, &id, &which)?;
            }
            planned
        })
    })
    .await
}

/// Reports a missing target as not found instead of as "nothing to undo".
fn check_target_exists(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    which: &UndoTarget,
) -> Result<(), EngineError> {
    let found = app.engine().store().read(ctx, |r| match which {
        UndoTarget::Message(message) => r.messages().get(session, message).map(drop),
        UndoTarget::Part(part) => r.messages().get_part(session, part).map(drop),
        UndoTarget::Last | UndoTarget::Turn(_) | UndoTarget::From(_) => Ok(()),
    });
    Ok(found?)
}

/// Plans an operation and carries it out, once.
fn run_operation(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    began: Option<LogCursor>,
    dry_run: bool,
    plan: impl FnOnce(&Context) -> Result<UndoPlan, EngineError>,
) -> Result<SeqStamped<UndoResponse>, ApiError> {
    if let Some(began) = began {
        let report = recovered_report(app, ctx, session, began)?;
        let complete = report.is_complete();
        return stamp_seq(
            app,
            ctx,
            session,
            UndoResponse::Done { report: Box::new(report), complete },
        );
    }
    if dry_run {
        let plan = Box::new(plan(ctx)?);
        return stamp_seq(app, ctx, session, UndoResponse::Foreseen { plan });
    }
    check_expected_seq(app, ctx, session)?;
    check_idle(app, ctx, session)?;
    let report = app.engine().history().apply(ctx, &plan(ctx)?)?;
    let complete = report.is_complete();
    stamp_seq(app, ctx, session, UndoResponse::Done { report: Box::new(report), complete })
}

/// The report of an operation that was cut off after it had begun: recovery finishes it.
fn recovered_report(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    began: LogCursor,
) -> Result<OperationReport, ApiError> {
    app.engine().maintenance().recover_all(ctx)?;
    let operations = app.engine().store().read(ctx, |r| r.operations().list(session))?;
    let found = operations.into_iter().find(|operation| operation.planned >= began);
    let report = found.map(|operation| decode_report(&operation)).transpose()?.flatten();
    report.ok_or_else(|| ApiError::NotFound("The operation of this key not found".to_owned()))
}

/// A name for the present point of the session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointRequest {
    /// The name.
    name: String,
}

/// A point with a name.
#[derive(Serialize)]
struct CheckpointResponse {
    /// The operation that named it.
    operation: OperationId,
    /// The name.
    name: String,
    /// When, in milliseconds.
    time: i64,
}

impl From<turnstone_engine::SessionCheckpoint> for CheckpointResponse {
    fn from(found: turnstone_engine::SessionCheckpoint) -> Self {
        Self { operation: found.operation, name: found.name, time: found.time.0 }
    }
}

/// `POST /turnstone/session/{sessionID}/checkpoint`
async fn checkpoint(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(session): Path<String>,
    TypedBody(body): TypedBody<CheckpointRequest>,
) -> Result<SeqStamped<CheckpointResponse>, ApiError> {
    let id = session_id(&session)?;
    if body.name.is_empty() || body.name.chars().any(char::is_control) {
        return Err(ApiError::invalid_payload("a name has printable characters, at least one"));
    }
    app.run_blocking(move |app| {
        let operation = match began {
            None => app.engine().history().checkpoints().create(&ctx, &id, &body.name)?,
            // One event plans it and one ends it, in one transaction: it is there.
            Some(began) => {
                let all = app.engine().store().read(&ctx, |r| r.operations().list(&id))?;
                let found = all.into_iter().find(|operation| operation.planned >= began);
                let missing = || ApiError::NotFound("Checkpoint not found".to_owned());
                found.ok_or_else(missing)?.id
            }
        };
        let made = CheckpointResponse { operation, name: body.name, time: ctx.now.0 };
        stamp_seq(app, &ctx, &id, made)
    })
    .await
}

/// `DELETE /turnstone/session/{sessionID}/checkpoint/{name}`
///
/// Every checkpoint of that name; the points stay reachable by what happened there.
async fn remove_checkpoint(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, name)): Path<(String, String)>,
) -> Result<SeqStamped<Vec<CheckpointResponse>>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        check_expected_seq(app, &ctx, &id)?;
        let removed = app.engine().history().checkpoints().remove(&ctx, &id, &name)?;
        stamp_seq(app, &ctx, &id, removed.into_iter().map(CheckpointResponse::from).collect())
    })
    .await
}

/// `GET /turnstone/session/{sessionID}/checkpoint`
async fn checkpoints(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<SeqStamped<Vec<CheckpointResponse>>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        let found = app.engine().history().checkpoints().list(&ctx, &id)?;
        stamp_seq(app, &ctx, &id, found.into_iter().map(CheckpointResponse::from).collect())
    })
    .await
}
