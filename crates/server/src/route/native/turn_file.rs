//! Files of a turn: read with a stamp, written only if they still are what was read, and locked.

use std::path::PathBuf;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use turnstone_core::id::PartId;
use turnstone_engine::{FileError, FileReadResult, FileStamp, FileWriteRequest, WritePrecondition};

use super::seq_stamped::{EncodedJson, SeqStamped, stamp_seq};
use super::tool::EndToolResponse;
use super::turn::{parse_turn_path, require_driven_turn};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::error::ApiError;
use crate::file_access::{HeldFileLock, lock_files};
use crate::request_context::{RequestContext, RetryAwareContext};

/// The files that one request may lock or write: each costs a descriptor.
const MAX_FILES: usize = 256;
/// The bytes of an answer with a file, besides those of the file.
const RESPONSE_BYTES: u64 = 16 << 10;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/file/read", post(read))
        .route("/turnstone/session/{session}/turn/{turn}/file/write", post(write))
        .route("/turnstone/session/{session}/turn/{turn}/file/lock", post(lock).delete(unlock))
}

/// A file to read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFileRequest {
    /// Where, absolute or from the directory of the session.
    path: PathBuf,
}

/// A file as it is.
#[derive(Serialize)]
struct ReadFileResponse {
    /// Its real path.
    path: PathBuf,
    /// Its text; nothing if there is no such file, or it is not UTF-8.
    text: Option<String>,
    /// Its bytes in base64, if it is not UTF-8.
    base64: Option<String>,
    /// What is remembered of it.
    stamp: FileStamp,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/file/read`
///
/// The session remembers what it saw, for `expected: "read"` of a write.
async fn read(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<ReadFileRequest>,
) -> Result<SeqStamped<EncodedJson>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    let asked = (ctx.clone(), session.clone(), body.path.clone());
    let size = app.run_blocking(move |app| {
        let (ctx, session, path) = asked;
        require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        app.engine().permissions().check_file_read(&ctx, &session, &path)?;
        app.engine().tool_calls().measure_file(&ctx, &session, &path).map_err(file_error)
    });
    // The file, and the answer with it.
    let size = size.await?.saturating_mul(2);
    let reserved = app.in_flight().files.reserve_read(size + RESPONSE_BYTES).await?;
    app.run_blocking(move |app| {
        let found = app.engine().tool_calls().read_file(&ctx, &session, &body.path);
        let FileReadResult { path, bytes, stamp } = found.map_err(file_error)?;
        let (text, base64) = match bytes.map(String::from_utf8) {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(error)) => (None, Some(BASE64.encode(error.as_bytes()))),
        };
        let response = ReadFileResponse { path, text, base64, stamp };
        let body = app.in_flight().files.encode(reserved, response)?;
        stamp_seq(app, &ctx, &session, EncodedJson(body))
    })
    .await
}

/// Files to write as one call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteFilesRequest {
    /// The part of the tool that writes them.
    #[serde(rename = "partID")]
    part: Option<PartId>,
    /// The files.
    files: Vec<FileToWrite>,
}

/// A file to write. Without `text` and `base64` it is removed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileToWrite {
    /// Where, absolute or from the directory of the session.
    path: PathBuf,
    /// What must be there before: `read` (the default: what the session saw last), `absent`, or a stamp.
    #[serde(default)]
    expected: ExpectedFile,
    /// Its new text.
    text: Option<String>,
    /// Its new bytes.
    base64: Option<String>,
}

/// What must be there before a file is written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExpectedFile {
    #[default]
    Read,
    Absent,
    Stamp(Box<FileStamp>),
}

impl FileToWrite {
    fn request(self) -> Result<FileWriteRequest, ApiError> {
        let expected = match self.expected {
            ExpectedFile::Read => WritePrecondition::Read,
            ExpectedFile::Absent => WritePrecondition::Absent,
            ExpectedFile::Stamp(stamp) => WritePrecondition::Stamp(*stamp),
        };
        let bytes = match (self.text, self.base64) {
            (None, None) => None,
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(text)) => Some(BASE64.decode(text).map_err(|error| {
                ApiError::invalid_payload(format!("{error}\n  at [\"base64\"]"))
            })?),
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid_payload("a file has `text` or `base64`"));
            }
        };
        Ok(FileWriteRequest { path: self.path, expected, bytes })
    }
}

/// What came of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WriteFilesResponse {
    /// What was written.
    #[serde(flatten)]
    written: EndToolResponse,
    /// Why the other files were left alone: they were saved between the check and the write.
    refused: Vec<String>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/file/write`
///
/// All files are checked, under a lock, before any is written.
async fn write(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<WriteFilesRequest>,
) -> Result<SeqStamped<WriteFilesResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    check_file_count(body.files.len(), "files")?;
    let writes = body.files.into_iter().map(FileToWrite::request).collect::<Result<Vec<_>, _>>()?;
    let paths: Vec<PathBuf> = writes.iter().map(|write| write.path.clone()).collect();
    let asked = (ctx.clone(), session.clone(), turn.clone(), headers.clone(), paths.clone());
    let checked = app.run_blocking(move |app| {
        let (ctx, session, turn, headers, paths) = asked;
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        if held.has_file_lock() {
            let words = "this turn holds a lock on files; release it first";
            return Err(ApiError::tagged(StatusCode::CONFLICT, "FileLockedError", words));
        }
        app.engine().permissions().check_tool(&ctx, &session, ("write", &paths))?;
        Ok(held)
    });
    // While it waits, its driver is not silent.
    let waiting = checked.await?;
    let HeldFileLock { lock, place } =
        lock_files(&app, &ctx, &session, &paths).await?.map_err(file_error)?;
    app.run_blocking(move |app| {
        let (_waiting, _place) = (waiting, place);
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let calls = app.engine().tool_calls();
        let done = calls.write_files(&ctx, held.turn(), body.part.as_ref(), (&writes, lock));
        let done = done.map_err(file_error)?;
        let mut written = EndToolResponse::default();
        written.add(&done.closed);
        let refused = done.refused.iter().map(ToString::to_string).collect();
        stamp_seq(app, &ctx, &session, WriteFilesResponse { written, refused })
    })
    .await
}

/// Files that no one else is to write meanwhile.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFilesRequest {
    /// Their paths, absolute.
    paths: Vec<PathBuf>,
}

/// Nothing to say.
#[derive(Serialize)]
struct LockResponse {}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/file/lock`
///
/// Waits until no other turn writes one of the files, at most half a minute. A turn holds one lock; it is
/// released by `DELETE`, by the next lock, and at the end of the turn.
async fn lock(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<LockFilesRequest>,
) -> Result<SeqStamped<LockResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    if let Some(path) = body.paths.iter().find(|path| !path.is_absolute()) {
        let words = format!("Expected an absolute path, got {path:?}\n  at [\"paths\"]");
        return Err(ApiError::invalid_payload(words));
    }
    check_file_count(body.paths.len(), "paths")?;
    let asked = (ctx.clone(), session.clone(), turn.clone(), headers.clone());
    let released = app.run_blocking(move |app| {
        let (ctx, session, turn, headers) = asked;
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        held.replace_file_lock(None);
        Ok(held)
    });
    // While it waits, its driver is not silent.
    let waiting = released.await?;
    let lock = lock_files(&app, &ctx, &session, &body.paths).await?.map_err(file_error)?;
    app.run_blocking(move |app| {
        let _waiting = waiting;
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        held.replace_file_lock(Some(lock));
        stamp_seq(app, &ctx, &session, LockResponse {})
    })
    .await
}

/// `DELETE /turnstone/session/{sessionID}/turn/{turnID}/file/lock`
async fn unlock(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<SeqStamped<LockResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        held.replace_file_lock(None);
        stamp_seq(app, &ctx, &session, LockResponse {})
    })
    .await
}

/// Refuses a request that names too many files.
fn check_file_count(count: usize, field: &str) -> Result<(), ApiError> {
    if count <= MAX_FILES {
        return Ok(());
    }
    let words = format!("Expected at most {MAX_FILES} files, got {count}\n  at [{field:?}]");
    Err(ApiError::invalid_payload(words))
}

/// Why a file was not read or written; it is as it was.
fn file_error(error: FileError) -> ApiError {
    let words = error.to_string();
    let (tag, path) = match error {
        FileError::Engine(error) => return error.into(),
        FileError::InvalidPath { .. } | FileError::NamedTwice { .. } => {
            return ApiError::invalid_payload(words);
        }
        FileError::Outside { .. } => {
            return ApiError::tagged(StatusCode::FORBIDDEN, "NotAllowedError", &words);
        }
        FileError::NeverRead { path } => ("FileNotReadError", path),
        FileError::Stale { path, .. } => ("FileChangedError", path),
        FileError::NotCovered { path, .. } => ("FileNotCoveredError", path),
        FileError::Locked { path } => ("FileLockedError", path),
    };
    ApiError::tagged(StatusCode::CONFLICT, tag, &words)
        .with_field("path", path.to_string_lossy().into_owned())
}
