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
use turnstone_engine::{Closed, Touch};

use super::answer::Stamped;
use super::input::Typed;
use super::timeline::letter;
use super::turn::names;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
use crate::input::parse_id;

/// The bytes of the longest path, and of the longest name in one, that a system takes.
const LONGEST_PATH: usize = 4_096;
const LONGEST_NAME: usize = 255;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/tool", post(before))
        .route("/turnstone/session/{session}/turn/{turn}/tool/{part}/end", post(after))
}

/// A tool that is about to run.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Before {
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
    touches: Touches,
}

/// What a tool may do to files.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Touches {
    /// Nothing.
    Nothing,
    /// It writes these paths and no others; relative ones begin at the session's directory.
    Paths(Vec<PathBuf>),
    /// Whatever it wants, as a shell does.
    Anything,
}

impl TryFrom<Touches> for Touch {
    type Error = ApiError;

    fn try_from(told: Touches) -> Result<Self, ApiError> {
        match told {
            Touches::Nothing => Ok(Self::Nothing),
            Touches::Paths(paths) => match paths.iter().find(|path| !can_exist(path)) {
                None => Ok(Self::Named(paths)),
                Some(path) => {
                    let start: String = path.to_string_lossy().chars().take(80).collect();
                    let words = format!("Expected a path, got {start:?}\n  at [\"touches\"]");
                    Err(ApiError::payload(words))
                }
            },
            Touches::Anything => Ok(Self::Anything),
        }
    }
}

/// True if the system could have a file of that name.
fn can_exist(path: &std::path::Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.len() < LONGEST_PATH
        && !bytes.contains(&0)
        && path.components().all(|part| part.as_os_str().len() <= LONGEST_NAME)
}

/// A tool that may run now.
#[derive(Serialize)]
struct Announced {
    /// Its part.
    #[serde(rename = "partID")]
    part: PartId,
    /// False if nothing it does to files can be taken back.
    covered: bool,
    /// Named paths that lie outside of every root: they are not covered.
    outside: Vec<PathBuf>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/tool`
///
/// The tool may run once this has answered: what it may touch is captured by then.
async fn before(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<Before>,
) -> Result<Stamped<Announced>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        let mut state = json!({"status": "running", "input": body.input,
            "time": {"start": ctx.now.0}});
        if let Some(title) = body.title {
            state["title"] = Value::from(title);
        }
        let mut part = Map::from_iter([
            ("type".to_owned(), Value::from("tool")),
            ("callID".to_owned(), Value::from(body.call)),
            ("tool".to_owned(), Value::from(body.tool)),
            ("state".to_owned(), state),
        ]);
        if let Some(id) = &body.part {
            part.insert("id".to_owned(), Value::from(id.as_str()));
        }
        app.check_answer(&ctx, held.turn(), &body.message)?;
        let part = app.part_from(&ctx, &session, &body.message, part)?;
        let touch = Touch::try_from(body.touches)?;
        let run = app.engine().tool_before(&ctx, held.turn(), &part, &touch)?;
        let call = run.call();
        let announced = Announced {
            part: part.id.clone(),
            covered: call.is_none_or(turnstone_engine::Call::is_covered),
            outside: call.map(|call| call.outside.clone()).unwrap_or_default(),
        };
        held.began_tool(&part.id, run);
        app.stamped(&ctx, &session, announced)
    })
    .await
}

/// How a tool ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct After {
    /// What it answered; or `error`.
    output: Option<String>,
    /// What went wrong.
    error: Option<String>,
    /// What it did, in a few words.
    title: Option<String>,
    /// What it reports.
    metadata: Option<Value>,
    /// Files it returned.
    attachments: Option<Vec<Value>>,
}

/// What a tool did to files.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    /// Its change sets: more than one if it wrote in other roots of the project.
    changes: Vec<ChangeId>,
    /// The files, sorted by path.
    files: Vec<Changed>,
    /// How many of them, and of the paths outside, can never be taken back.
    not_covered: u64,
}

/// A file a tool changed.
#[derive(Serialize)]
struct Changed {
    /// Where, below its root.
    path: turnstone_core::path::RelPath,
    /// `A`, `M`, `D`, or `?` if a side is not known.
    status: char,
}

impl Done {
    fn add(&mut self, closed: &Closed) {
        self.changes.push(closed.id.clone());
        let one =
            |change: &FileChange| Changed { path: change.path.clone(), status: letter(change) };
        self.files.extend(closed.changes.iter().map(one));
        self.not_covered += closed.not_covered;
        closed.beside.iter().for_each(|beside| self.add(beside));
    }
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/tool/{partID}/end`
async fn after(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path((session, turn, part)): Path<(String, String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<After>,
) -> Result<Stamped<Done>, ApiError> {
    let (session, turn) = names(&(session, turn))?;
    let part: PartId = parse_id("partID", "prt", &part)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        let stored = app.engine().store().read(&ctx, |r| r.get_part(&session, &part))?;
        let state = ended(&stored.body, body, ctx.now.0)?;
        let run = match held.tool(&part) {
            Some(run) => run,
            // It began before this server did.
            None => app.engine().find_tool(&ctx, held.turn(), &part)?,
        };
        let closed = app.engine().tool_after(&ctx, held.turn(), run, state)?;
        let mut done = Done::default();
        closed.iter().for_each(|closed| done.add(closed));
        app.stamped(&ctx, &session, done)
    })
    .await
}

/// The state of a tool after its end.
fn ended(stored: &PartBody, body: After, now: i64) -> Result<ToolState, ApiError> {
    let PartBody::Tool(tool) = stored else {
        return Err(ApiError::payload("this part is no tool"));
    };
    let state = serde_json::to_value(&tool.state).map_err(|e| ApiError::unexpected(&e))?;
    let start = state["time"]["start"].as_i64().unwrap_or(now);
    let mut time = json!({ "start": start, "end": now });
    if let Some(exact) = state["time"].get("start") {
        time["start"] = exact.clone();
    }
    let input = state["input"].clone();
    let mut next = match (body.output, body.error) {
        (Some(output), None) => json!({"status": "completed", "input": input, "output": output,
            "title": body.title.unwrap_or_default(), "metadata": {}, "time": time}),
        (None, Some(error)) => {
            json!({"status": "error", "input": input, "error": error, "time": time})
        }
        _ => return Err(ApiError::payload("a tool ends with `output` or with `error`")),
    };
    if let Some(metadata) = body.metadata {
        next["metadata"] = metadata;
    }
    if let Some(attachments) = body.attachments {
        next["attachments"] = Value::Array(attachments);
    }
    serde_json::from_value(next).map_err(|error| ApiError::payload(error.to_string()))
}
