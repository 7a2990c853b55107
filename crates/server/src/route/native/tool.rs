//! Tools: announced before they touch files, compared afterwards.

use std::path::PathBuf;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use turnstone_core::change::FileChange;
use turnstone_core::id::{ChangeId, MessageId, PartId};
use turnstone_core::model::{PartBody, ToolState};
use turnstone_engine::{ClosedCall, ToolFileAccess};

use super::seq_stamped::{SeqStamped, stamp_seq};
use super::timeline::change_letter;
use super::turn::{check_answer_of_turn, parse_part, parse_turn_path, require_driven_turn};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::parse_path_id;

/// The bytes of the longest path, and of the longest name in one, that a system takes.
const MAX_PATH_BYTES: usize = 4_096;
const MAX_NAME_BYTES: usize = 255;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/tool", post(begin_tool))
        .route("/turnstone/session/{session}/turn/{turn}/tool/{part}/end", post(end_tool))
}

/// A tool that is about to run.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BeginToolRequest {
    /// The answer that calls it.
    #[serde(rename = "messageID")]
    message: MessageId,
    /// The id of its part; made if it is left out.
    #[serde(rename = "partID")]
    part: Option<PartId>,
    /// The model's name for the call.
    #[serde(rename = "callID")]
    call: String,
    /// The tool.
    tool: String,
    /// Its input.
    input: Value,
    /// What it says it does.
    title: Option<String>,
    /// What it may do to files.
    touches: DeclaredTouches,
}

/// What a tool may do to files.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum DeclaredTouches {
    /// Nothing.
    Nothing,
    /// It writes these paths and no others; relative ones begin at the session's directory.
    Paths(Vec<PathBuf>),
    /// Whatever it wants, as a shell does.
    Anything,
}

impl TryFrom<DeclaredTouches> for ToolFileAccess {
    type Error = ApiError;

    fn try_from(declared: DeclaredTouches) -> Result<Self, ApiError> {
        match declared {
            DeclaredTouches::Nothing => Ok(Self::Nothing),
            DeclaredTouches::Paths(paths) => match paths.iter().find(|path| !can_exist(path)) {
                None => Ok(Self::Named(paths)),
                Some(path) => {
                    let start: String = path.to_string_lossy().chars().take(80).collect();
                    let words = format!("Expected a path, got {start:?}\n  at [\"touches\"]");
                    Err(ApiError::invalid_payload(words))
                }
            },
            DeclaredTouches::Anything => Ok(Self::Anything),
        }
    }
}

/// True if the system could have a file of that name.
fn can_exist(path: &std::path::Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.len() < MAX_PATH_BYTES
        && !bytes.contains(&0)
        && path.components().all(|part| part.as_os_str().len() <= MAX_NAME_BYTES)
}

/// A tool that may run now.
#[derive(Serialize)]
struct BeginToolResponse {
    /// Its part.
    #[serde(rename = "partID")]
    part: PartId,
    /// False if nothing it does to files can be undone.
    covered: bool,
    /// Named paths that lie outside of every root: they are not covered.
    outside: Vec<PathBuf>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/tool`
///
/// The tool may run once this has answered: what it may touch is captured by then.
async fn begin_tool(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<BeginToolRequest>,
) -> Result<SeqStamped<BeginToolResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let tool = body.tool;
        let mut state = json!({"status": "running", "input": body.input,
            "time": {"start": ctx.now.0}});
        if let Some(title) = body.title {
            state["title"] = Value::from(title);
        }
        let mut part = Map::from_iter([
            ("type".to_owned(), Value::from("tool")),
            ("callID".to_owned(), Value::from(body.call)),
            ("tool".to_owned(), Value::from(tool.as_str())),
            ("state".to_owned(), state),
        ]);
        if let Some(id) = &body.part {
            part.insert("id".to_owned(), Value::from(id.as_str()));
        }
        check_answer_of_turn(app, &ctx, held.turn(), &body.message)?;
        let part = parse_part(app, &ctx, &session, &body.message, part)?;
        let touch = ToolFileAccess::try_from(body.touches)?;
        let named = match &touch {
            ToolFileAccess::Named(paths) => paths.as_slice(),
            ToolFileAccess::Nothing | ToolFileAccess::Anything => &[],
        };
        app.engine().permissions().check_tool(&ctx, &session, (&tool, named))?;
        let run = app.engine().turns().steps().begin_tool(&ctx, held.turn(), &part, &touch)?;
        let call = run.call();
        let announced = BeginToolResponse {
            part: part.id.clone(),
            covered: call.is_none_or(turnstone_engine::TrackedCall::is_covered),
            outside: call.map(|call| call.outside.clone()).unwrap_or_default(),
        };
        held.store_tool_run(&part.id, run);
        stamp_seq(app, &ctx, &session, announced)
    })
    .await
}

/// How a tool ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EndToolRequest {
    /// What it answered; or `error`.
    output: Option<String>,
    /// What went wrong.
    error: Option<String>,
    /// What it did, in a few words.
    title: Option<String>,
    /// What it reports.
    metadata: Option<Map<String, Value>>,
    /// Files it returned.
    attachments: Option<Vec<Map<String, Value>>>,
}

impl EndToolRequest {
    fn check_outcome(&self) -> Result<(), ApiError> {
        match self.output.is_some() == self.error.is_some() {
            true => Err(ApiError::invalid_payload("a tool ends with `output` or with `error`")),
            false => Ok(()),
        }
    }
}

/// What a tool did to files.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndToolResponse {
    /// Its change sets: more than one if it wrote in other roots of the project.
    changes: Vec<ChangeId>,
    /// The files, sorted by path.
    files: Vec<ToolChangedFile>,
    /// How many of them, and of the paths outside, can never be undone.
    not_covered: u64,
}

/// A file a tool changed.
#[derive(Serialize)]
struct ToolChangedFile {
    /// Where, below its root.
    path: turnstone_core::rel_path::RelPath,
    /// `A`, `M`, `D`, or `?` if a side is not known.
    status: char,
}

impl EndToolResponse {
    pub(super) fn add(&mut self, closed: &ClosedCall) {
        self.changes.push(closed.id.clone());
        let one = |change: &FileChange| ToolChangedFile {
            path: change.path.clone(),
            status: change_letter(change),
        };
        let files = closed.changes.iter().filter(|change| !change.is_directory_only());
        self.files.extend(files.map(one));
        self.not_covered += closed.not_covered;
        closed.other_roots.iter().for_each(|other| self.add(other));
    }
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/tool/{partID}/end`
async fn end_tool(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path((session, turn, part)): Path<(String, String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<EndToolRequest>,
) -> Result<SeqStamped<EndToolResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&(session, turn))?;
    let part: PartId = parse_path_id("partID", "prt", &part)?;
    body.check_outcome()?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let stored = app.engine().store().read(&ctx, |r| r.messages().get_part(&session, &part))?;
        let state = ended_tool_state(&stored.body, body, ctx.now.0)?;
        let run = match held.take_tool_run(&part) {
            Some(run) => run,
            // It began before this server did.
            None => app.engine().turns().steps().find_tool_run(&ctx, held.turn(), &part)?,
        };
        let closed = app.engine().turns().steps().end_tool(&ctx, held.turn(), run, state)?;
        let mut done = EndToolResponse::default();
        closed.iter().for_each(|closed| done.add(closed));
        stamp_seq(app, &ctx, &session, done)
    })
    .await
}

/// The state of a tool after its end.
fn ended_tool_state(
    stored: &PartBody,
    body: EndToolRequest,
    now: i64,
) -> Result<ToolState, ApiError> {
    let PartBody::Tool(tool) = stored else {
        return Err(ApiError::invalid_payload("this part is no tool"));
    };
    let state = serde_json::to_value(&tool.state).map_err(|e| ApiError::unexpected(&e))?;
    let start = state["time"]["start"].as_i64().unwrap_or(now);
    let mut time = json!({ "start": start, "end": now });
    if let Some(exact) = state["time"].get("start") {
        time["start"] = exact.clone();
    }
    let input = state["input"].clone();
    let mut next = match body.error {
        Some(error) => json!({"status": "error", "input": input, "error": error, "time": time}),
        None => json!({"status": "completed", "input": input, "output": body.output,
            "title": body.title.unwrap_or_default(), "metadata": {}, "time": time}),
    };
    if let Some(metadata) = body.metadata {
        next["metadata"] = Value::Object(metadata);
    }
    if let Some(attachments) = body.attachments {
        next["attachments"] = attachments.into_iter().map(Value::Object).collect();
    }
    serde_json::from_value(next).map_err(|error| ApiError::invalid_payload(error.to_string()))
}
