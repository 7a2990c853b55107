//! What a request is answered when it cannot be done: one place decides status and body.
//!
//! OpenCode's clients know four shapes of an error; each variant is one of them.

use std::io::ErrorKind;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use turnstone_core::id::{MessageId, ProjectId, SessionId};
use turnstone_core::permission::ReplyError;
use turnstone_core::redact::redact_prose;
use turnstone_core::time::SessionSeq;
use turnstone_engine::{EngineError, GitError, PermissionError};
use turnstone_store::StoreError;

use crate::random;

/// The longest message a client is sent.
const MAX_MESSAGE_CHARS: usize = 1024;

/// After how many seconds a client may repeat what the database could not do.
const RETRY_AFTER_SECONDS: &str = "5";
/// The field that names the part of the server that does not work at the moment.
const SERVICE_FIELD: &str = "service";

/// Why a request was not done.
#[derive(Clone, Debug)]
pub(crate) enum ApiError {
    /// A thing that was named is not there: `NotFoundError`.
    NotFound(String),
    /// The request does not have the required shape: `BadRequest` with the position of the error.
    InvalidInput {
        /// What is wrong, and where.
        message: String,
        /// Which part of the request: `Payload`, `QueryParams` or `Params`.
        kind: &'static str,
    },
    /// One of the errors that carry `_tag`.
    Tagged {
        /// The status.
        status: StatusCode,
        /// The tag.
        tag: &'static str,
        /// What else is in the body.
        fields: Map<String, Value>,
    },
    /// A part of OpenCode's interface this server does not have.
    NotOffered {
        /// What was asked for.
        what: String,
    },
    /// Something this server could not do; the log knows more under the reference.
    Internal {
        /// Names the line in the log.
        reference: String,
    },
}

impl ApiError {
    /// There is no such session.
    pub(crate) fn no_session(id: impl std::fmt::Display) -> Self {
        Self::NotFound(format!("Session not found: {id}"))
    }

    /// The session has no such message.
    pub(crate) fn no_message(id: &MessageId) -> Self {
        Self::NotFound(format!("Message not found: {id}"))
    }

    /// The body is wrong.
    pub(crate) fn invalid_payload(message: impl Into<String>) -> Self {
        Self::InvalidInput { message: message.into(), kind: "Payload" }
    }

    /// The query is wrong.
    pub(crate) fn invalid_query(message: impl Into<String>) -> Self {
        Self::InvalidInput { message: message.into(), kind: "Query" }
    }

    /// The path is wrong.
    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::InvalidInput { message: message.into(), kind: "Params" }
    }

    /// An error with a tag and a message.
    pub(crate) fn tagged(status: StatusCode, tag: &'static str, message: &str) -> Self {
        Self::Tagged { status, tag, fields: Map::new() }.with_field("message", message)
    }

    /// The same with one more field.
    pub(crate) fn with_field(mut self, key: &str, value: impl Into<Value>) -> Self {
        if let Self::Tagged { fields, .. } = &mut self {
            fields.insert(key.to_owned(), value.into());
        }
        self
    }

    /// The bare answer OpenCode gives to a body it cannot use.
    pub(crate) fn bare_bad_request() -> Self {
        Self::Tagged { status: StatusCode::BAD_REQUEST, tag: "BadRequest", fields: Map::new() }
    }

    /// A turn runs, and the request would disturb it (R45).
    pub(crate) fn busy(session: &SessionId) -> Self {
        let message = format!("Session is busy: {session}");
        Self::tagged(StatusCode::CONFLICT, "SessionBusyError", &message)
            .with_field("sessionID", session.as_str())
    }

    /// The session has moved on since the client looked (R43).
    pub(crate) fn stale(session: &SessionId, expected: SessionSeq, current: SessionSeq) -> Self {
        let message = format!("session {session} is at {current}, not at {expected}");
        Self::tagged(StatusCode::CONFLICT, "StaleError", &message)
            .with_field("sessionID", session.as_str())
            .with_field("expected", expected.0)
            .with_field("current", current.0)
    }

    /// A runner asked for what only a person may do.
    pub(crate) fn not_for_runners(message: &str) -> Self {
        Self::tagged(StatusCode::FORBIDDEN, "NotAllowedError", message)
    }

    /// A conflict that the person can resolve: the reason, and what helps. A reason that quotes a
    /// repository may be long.
    fn hinted(tag: &'static str, reason: &str, hint: Option<&str>) -> Self {
        let reason: String = reason.chars().take(MAX_MESSAGE_CHARS).collect();
        let hint = hint.map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
        Self::tagged(StatusCode::CONFLICT, tag, &format!("{reason}{hint}"))
    }

    /// The database does not work at the moment: the reason, and what helps.
    fn store_unavailable(error: &StoreError) -> Self {
        let hint = error.remedy().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::tagged(status, "ServiceUnavailableError", &format!("{error}{hint}"))
            .with_field(SERVICE_FIELD, "store")
    }

    /// The session is deleted, but what it left on the disk could not be removed yet: the server tries again.
    pub(crate) fn erasure_pending(session: &SessionId, error: &EngineError) -> Self {
        let reason = redact_prose(&with_causes(error));
        let message = format!(
            "the session is deleted; some of its data is still on the disk and will be removed later: {reason}"
        );
        tracing::warn!("{message}");
        Self::tagged(StatusCode::SERVICE_UNAVAILABLE, "ErasurePendingError", &message)
            .with_field("sessionID", session.as_str())
    }

    /// True if the same request may succeed a little later.
    fn is_store_unavailable(&self) -> bool {
        matches!(self, Self::Tagged { status: StatusCode::SERVICE_UNAVAILABLE, fields, .. }
            if fields.get(SERVICE_FIELD).is_some_and(|service| service == "store"))
    }

    /// The disk has no room.
    fn storage_full(words: &str) -> Self {
        Self::tagged(StatusCode::INSUFFICIENT_STORAGE, "StorageFullError", words)
    }

    /// Something that should not happen: told to the log, named to the client.
    pub(crate) fn unexpected(error: &dyn std::error::Error) -> Self {
        let reference = new_reference();
        tracing::error!(reference, "{}", redact_prose(&with_causes(error)));
        Self::Internal { reference }
    }

    /// The status of the answer.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::InvalidInput { .. } => StatusCode::BAD_REQUEST,
            Self::Tagged { status, .. } => *status,
            Self::NotOffered { .. } => StatusCode::NOT_IMPLEMENTED,
            Self::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The body of the answer.
    pub(crate) fn body(&self) -> Value {
        match self {
            Self::NotFound(message) => {
                json!({ "name": "NotFoundError", "data": { "message": message } })
            }
            Self::InvalidInput { message, kind } => {
                let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
                json!({ "name": "BadRequest", "data": { "message": message, "kind": kind } })
            }
            Self::Tagged { tag, fields, .. } => {
                let mut body = Map::new();
                body.insert("_tag".to_owned(), Value::from(*tag));
                body.extend(fields.clone());
                Value::Object(body)
            }
            Self::NotOffered { what } => {
                let message = format!("{what} is not offered by this server");
                json!({ "name": "NotOfferedError", "data": { "message": message } })
            }
            Self::Internal { reference } => {
                let message = "Unexpected server error. Check server logs for details.";
                json!({ "name": "UnknownError", "data": { "message": message, "ref": reference } })
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.body())).into_response();
        if self.is_store_unavailable() {
            let seconds = HeaderValue::from_static(RETRY_AFTER_SECONDS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        // Routes with other words for the same errors find it here.
        response.extensions_mut().insert(self);
        response
    }
}

/// The words of an error and of what caused it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        words = format!("{words}: {inner}");
        cause = inner.source();
    }
    words
}

/// True if the system said somewhere below that there is no room.
fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut at = Some(error);
    while let Some(error) = at {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) {
            return true;
        }
        at = error.source();
    }
    false
}

/// True if the system has no process, descriptor or memory left.
fn is_short_of_resources(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// A short name for a line in the log.
fn new_reference() -> String {
    match random::random_hex::<4>() {
        Ok(digits) => format!("err_{digits}"),
        Err(error) => {
            tracing::error!("{error}");
            "err_without_reference".to_owned()
        }
    }
}

impl From<StoreError> for ApiError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the store may learn to fail in other ways")]
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSession(id) | StoreError::Deleted(id) => Self::no_session(id),
            StoreError::NoMessage { message, .. } => Self::no_message(&message),
            StoreError::NoPart { part, .. } => Self::NotFound(format!("Part not found: {part}")),
            StoreError::NotFound { kind, id } => Self::NotFound(format!("{kind} not found: {id}")),
            StoreError::Busy(id) | StoreError::Fenced(id) => Self::busy(&id),
            StoreError::Stale { session, expected, current } => {
                Self::stale(&session, expected, current)
            }
            StoreError::WrongOwner { .. }
            | StoreError::Conflict { .. }
            | StoreError::Transition(_)
            | StoreError::Tool(_) => {
                Self::tagged(StatusCode::CONFLICT, "ConflictError", &error.to_string())
            }
            StoreError::Invalid(message) => Self::invalid_payload(message),
            StoreError::NoBoundary { .. } | StoreError::BeyondEnd { .. } => {
                Self::invalid_payload(error.to_string())
            }
            StoreError::TooLarge { .. } => {
                Self::tagged(StatusCode::PAYLOAD_TOO_LARGE, "TooLargeError", &error.to_string())
            }
            StoreError::Full { .. } => Self::storage_full("no space left"),
            StoreError::ReadOnly { .. }
            | StoreError::Locked { .. }
            | StoreError::InUse { .. }
            | StoreError::OldPagesInUse { .. }
            | StoreError::Poisoned { .. } => Self::store_unavailable(&error),
            _ => Self::unexpected(&error),
        }
    }
}

/// What has no space left.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others say it themselves")]
fn describe_full(error: &EngineError) -> String {
    match error {
        EngineError::Io(_) => "no space left".to_owned(),
        EngineError::Unrecorded { .. } => with_causes(error),
        error => error.to_string(),
    }
}

fn no_project(id: &ProjectId) -> ApiError {
    let message = format!("Project not found: {id}");
    ApiError::tagged(StatusCode::NOT_FOUND, "ProjectNotFoundError", &message)
        .with_field("projectID", id.as_str())
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::NoProject(id) => no_project(&id),
            EngineError::NoTurn { turn, .. } => Self::NotFound(format!("Turn not found: {turn}")),
            EngineError::NoPoint { point, .. } => {
                Self::NotFound(format!("Point not found: {point}"))
            }
            EngineError::Fork(error) => Self::NotFound(error.to_string()),
            EngineError::NothingToUndo(_)
            | EngineError::NothingToRedo(_)
            | EngineError::TurnChoice(_)
            | EngineError::UndoSuperseded { .. }
            | EngineError::NoSuchChange { .. } => {
                Self::tagged(StatusCode::CONFLICT, "NothingToDoError", &error.to_string())
            }
            EngineError::OperationRunning(ref session) => Self::busy(session),
            EngineError::StalePlan(_) | EngineError::CallNotOpen(_) => {
                Self::tagged(StatusCode::CONFLICT, "ConflictError", &error.to_string())
            }
            EngineError::PermissionRefused { .. } | EngineError::ToolDenied { .. } => {
                Self::tagged(StatusCode::FORBIDDEN, "NotAllowedError", &error.to_string())
            }
            EngineError::PermissionPending { ref request, .. } => {
                Self::tagged(StatusCode::CONFLICT, "PermissionAskedError", &error.to_string())
                    .with_field("permissionID", request.as_str())
            }
            EngineError::RootGone { .. }
            | EngineError::DirectoryMissing { .. }
            | EngineError::DirectoryGone { .. }
            | EngineError::DirectoryReplaced { .. }
            | EngineError::ProjectGone { .. } => {
                Self::tagged(StatusCode::CONFLICT, "DirectoryGoneError", &error.to_string())
            }
            EngineError::UndoExpired { .. } | EngineError::GuardExpired { .. } => {
                Self::tagged(StatusCode::CONFLICT, "UndoExpiredError", &error.to_string())
            }
            EngineError::Git(ref git) => git.into(),
            EngineError::Repository(ref refused) => {
                Self::hinted("RepositoryError", &refused.to_string(), refused.hint().as_deref())
            }
            ref full if full.is_full() => Self::storage_full(&describe_full(full)),
            EngineError::UnreadableRules { .. } => {
                Self::tagged(StatusCode::CONFLICT, "ConfigError", &error.to_string())
            }
            EngineError::BadPattern { .. } => Self::invalid_query(error.to_string()),
            EngineError::Open(_)
            | EngineError::OverBudget(_)
            | EngineError::ChangesPending(_)
            | EngineError::Unrecorded { .. }
            | EngineError::Snapshot(_)
            | EngineError::UnreadableOperation { .. }
            | EngineError::UnreadableCaptureId { .. }
            | EngineError::UnreadableProcessGroup { .. }
            | EngineError::ProcessGroup(_)
            | EngineError::Io(_) => Self::unexpected(&error),
        }
    }
}

impl From<PermissionError> for ApiError {
    fn from(error: PermissionError) -> Self {
        let words = error.to_string();
        match error {
            PermissionError::Engine(error) => error.into(),
            PermissionError::Reply(
                ReplyError::NotAllowedToAnswer(_)
                | ReplyError::OnlyOnce(_)
                | ReplyError::DeniedByUser { .. },
            ) => Self::tagged(StatusCode::FORBIDDEN, "NotAllowedError", &words),
            PermissionError::Reply(ReplyError::NoSuchRequest(_) | ReplyError::NotPending(_)) => {
                Self::NotFound(words)
            }
        }
    }
}

/// Git that is missing or too old is the machine's matter. Whatever else git cannot do is caused by the
/// repository it works on, and is no mistake of the server; except when the system has no process or
/// descriptor left for it.
impl From<&GitError> for ApiError {
    fn from(error: &GitError) -> Self {
        match error {
            GitError::Missing | GitError::TooOld { .. } => {
                Self::hinted("GitError", &error.to_string(), error.hint())
            }
            GitError::Busy | GitError::Cancelled { .. } => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::tagged(status, "GitBusyError", &error.to_string())
            }
            GitError::Start { source, .. } if is_disk_full(source) => {
                Self::storage_full("no space left")
            }
            GitError::Start { source, .. } if is_short_of_resources(source) => {
                Self::unexpected(error)
            }
            GitError::Start { .. }
            | GitError::ConditionalInclude { .. }
            | GitError::Failed { .. }
            | GitError::TimedOut { .. }
            | GitError::Stalled { .. }
            | GitError::UnusableFile { .. }
            | GitError::TooMuch { .. }
            | GitError::Unreadable { .. }
            | GitError::BadName { .. } => {
                Self::hinted("RepositoryError", &with_causes(error), error.hint())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_maps_to_storage_full_error() {
        let full = || std::io::Error::from(ErrorKind::StorageFull);
        for error in [EngineError::Io(full()), EngineError::Snapshot(full().into())] {
            assert_eq!(ApiError::from(error).status(), StatusCode::INSUFFICIENT_STORAGE);
        }
        let other = EngineError::Io(ErrorKind::PermissionDenied.into());
        assert_eq!(ApiError::from(other).status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn poisoned_store_is_unavailable_and_says_when_to_retry() {
        let (file, reason) = ("/data/turnstone.db".into(), "disk I/O error".to_owned());
        let error = ApiError::from(StoreError::Poisoned { file, reason });
        let body = error.body();
        assert_eq!(
            (&body["_tag"], &body["service"]),
            (&json!("ServiceUnavailableError"), &json!("store"))
        );
        let message = body["message"].as_str().expect("a message");
        assert!(message.contains("disk I/O error") && message.contains("(hint: "), "{message}");
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], RETRY_AFTER_SECONDS);
        let busy = ApiError::from(&GitError::Busy).into_response();
        assert!(busy.headers().get(header::RETRY_AFTER).is_none());
    }

    #[test]
    fn errors_a_repository_causes_are_conflicts_with_reason_and_hint() {
        let command = || "status".to_owned();
        let start = |errno: i32| std::io::Error::from_raw_os_error(errno);
        let stopped = std::time::Duration::from_secs(120);
        let failed = |stderr: String| GitError::Failed {
            command: command(),
            exit: turnstone_process::CommandExit::Code(128),
            stderr,
        };
        let all = [
            (failed("fatal: index file corrupt".to_owned()), "index file corrupt"),
            (failed("x".repeat(1 << 20)), "status failed"),
            (GitError::TimedOut { command: command(), limit: stopped }, "120s"),
            (GitError::Stalled { command: command(), limit: stopped }, "120s"),
            (GitError::UnusableFile { path: "/p".into(), problem: "is a pipe".to_owned() }, "/p"),
            (GitError::TooMuch { command: command(), limit: 7 }, "more than 7 bytes"),
            (GitError::Unreadable { command: command(), answer: "?".to_owned() }, "status"),
            (GitError::BadName { name: "-x".to_owned() }, "-x"),
            (GitError::ConditionalInclude { key: "includeif.a".to_owned() }, "includeif.a"),
            (GitError::Start { dir: "/gone".into(), source: start(2) }, "No such file"),
        ];
        for (error, reason) in all {
            let answer = ApiError::from(&error);
            let (status, body) = (answer.status(), answer.body());
            assert_eq!((status, &body["_tag"]), (StatusCode::CONFLICT, &json!("RepositoryError")));
            let message = body["message"].as_str().expect("a message");
            assert!(message.contains(reason) && message.contains("(hint: "), "{message}");
            assert!(message.len() < 2 * MAX_MESSAGE_CHARS, "{} bytes", message.len());
        }
        let missing = ApiError::from(&GitError::Missing);
        assert_eq!(
            (missing.status(), &missing.body()["_tag"]),
            (StatusCode::CONFLICT, &json!("GitError"))
        );
        let busy = ApiError::from(&GitError::Busy);
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        // The system's limits are the server's matter: 24 is "too many open files".
        let busy = GitError::Start { dir: "/".into(), source: start(24) };
        assert_eq!(ApiError::from(&busy).status(), StatusCode::INTERNAL_SERVER_ERROR);
        let full = GitError::Start { dir: "/".into(), source: ErrorKind::StorageFull.into() };
        assert_eq!(ApiError::from(&full).status(), StatusCode::INSUFFICIENT_STORAGE);
    }
}
