//! From the log to what OpenCode's clients read: types and properties as they were recorded.

use serde_json::{Value, json};
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::model::{
    ExtraFields, Message, MessageBody, PermissionReply, RequestBody, RequestId, RequestState,
    RevertState, UserRequest,
};
use turnstone_core::operation::SessionHead;
use turnstone_core::turn::TurnEvent;
use turnstone_core::wire;
use turnstone_engine::Engine;
use turnstone_store::{Context, FeedBody, FeedEvent, FeedSession, HistoricalSession};

use super::event_id::event_id;
use super::stream_event::{EventScope, StreamEvent, SyncNumber, WireEvent};

/// What an event of the log is for clients; some have no counterpart.
pub(crate) fn to_stream_event(engine: &Engine, ctx: &Context, event: &FeedEvent) -> StreamEvent {
    let place = event.session.as_ref().and_then(|session| session.location.as_ref());
    let mut scope = EventScope {
        directory: place.map(|place| place.0.as_str().into()),
        project: place.map(|place| place.1.as_str().into()),
    };
    if let FeedBody::Project(project) = &event.body {
        scope.project = Some(project.id.as_str().into());
    }
    if let FeedBody::Worktree { project, event: creation } = &event.body {
        scope.project = Some(project.as_str().into());
        scope.directory = Some(creation.directory.as_str().into());
    }
    let events = wire_events(engine, ctx, event);
    let id = event.session.as_ref().map(|session| session.id.clone());
    StreamEvent::from_log(event.cursor, id, scope, events)
}

fn wire_events(engine: &Engine, ctx: &Context, event: &FeedEvent) -> Vec<WireEvent> {
    let says = event_properties(engine, ctx, event);
    let name = |nth| event_id(event.cursor, event.time, nth);
    let mut events: Vec<WireEvent> = says
        .into_iter()
        .enumerate()
        .map(|(nth, (kind, properties))| WireEvent::new(name(nth), kind, &properties))
        .collect();
    // Only the event itself has a number, not what else follows from it.
    let session = event.session.as_ref();
    let numbered =
        session.and_then(|s| Some(SyncNumber { session: s.id.clone(), seq: s.sync_seq? }));
    if let (Some(first), true) = (events.first_mut(), event.kind.is_opencode_durable()) {
        first.numbered = numbered;
    }
    events
}

type EventProperties = Vec<(&'static str, Value)>;

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is not part of the conversation")]
fn event_properties(engine: &Engine, ctx: &Context, event: &FeedEvent) -> EventProperties {
    if let FeedBody::Project(project) = &event.body {
        return vec![("project.updated", wire::project_info(project))];
    }
    if let FeedBody::Worktree { event: creation, .. } = &event.body {
        return vec![(event.kind.name(), wire::worktree_info(creation))];
    }
    let Some(session) = &event.session else { return Vec::new() };
    let id = &session.id;
    match &event.body {
        FeedBody::Session(then) => {
            let new = event.kind == EventKind::SessionCreated;
            let kind = if new { "session.created" } else { "session.updated" };
            vec![(kind, with_info(id, historical_session_json(engine, ctx, then)))]
        }
        FeedBody::SessionDeleted(then) => {
            let info = match then {
                Some(then) => historical_session_json(engine, ctx, then),
                None => deleted_session_json(session),
            };
            vec![("session.deleted", with_info(id, info))]
        }
        FeedBody::Message(message) => message_event_properties(id, message),
        FeedBody::MessageRemoved(message) => {
            vec![("message.removed", json!({ "sessionID": id, "messageID": message }))]
        }
        FeedBody::Part(part) => {
            let (part, time) = (crate::wire_json::part_json(part), json!(event.time.0));
            let said = json_object([("sessionID", json!(id)), ("part", part), ("time", time)]);
            vec![("message.part.updated", said)]
        }
        FeedBody::PartRemoved { message, part } => {
            let said = json!({ "sessionID": id, "messageID": message, "partID": part });
            vec![("message.part.removed", said)]
        }
        FeedBody::PartDelta { message, part, text } => vec![(
            "message.part.delta",
            json!({ "sessionID": id, "messageID": message, "partID": part, "field": "text", "delta": text }),
        )],
        _ => session_event_properties(id, &event.body),
    }
}

/// Events that are not part of the conversation.
#[expect(clippy::wildcard_enum_match_arm, reason = "what OpenCode has no word for is not said")]
fn session_event_properties(id: &SessionId, body: &FeedBody) -> EventProperties {
    match body {
        FeedBody::Todos(todos) => {
            vec![("todo.updated", json!({ "sessionID": id, "todos": wire::todos_info(todos) }))]
        }
        FeedBody::Diff(diff) => {
            vec![("session.diff", json!({ "sessionID": id, "diff": wire::file_diffs_info(diff) }))]
        }
        FeedBody::Status(status) => {
            vec![("session.status", json!({ "sessionID": id, "status": status }))]
        }
        FeedBody::Turn { event, error, .. } => match event {
            TurnEvent::Started | TurnEvent::Answered => vec![status_event(id, "busy")],
            TurnEvent::Asked => Vec::new(),
            TurnEvent::Ended { .. } => {
                let error = error.as_ref().map(|error| json!({ "sessionID": id, "error": error }));
                let failed = error.map(|said| ("session.error", said));
                let idle = ("session.idle", json!({ "sessionID": id }));
                failed.into_iter().chain([status_event(id, "idle"), idle]).collect()
            }
        },
        FeedBody::RequestAsked(request) => vec![request_event(request)],
        // The answer was reported when it was given; that it is used up is not another one.
        FeedBody::RequestResolved { state: RequestState::Replied { used: true, .. }, .. } => {
            Vec::new()
        }
        FeedBody::RequestResolved { id: request, state } => {
            vec![resolution_event(id, request, state)]
        }
        _ => Vec::new(),
    }
}

/// How a request is announced.
pub(super) fn request_event(request: &UserRequest) -> (&'static str, Value) {
    let kind = match &request.body {
        RequestBody::Permission(_) => "permission.asked",
        RequestBody::Question(_) => "question.asked",
    };
    (kind, wire::request_info(request))
}

fn status_event(id: &SessionId, word: &str) -> (&'static str, Value) {
    ("session.status", json!({ "sessionID": id, "status": { "type": word } }))
}

/// An object of values that are moved, not copied.
fn json_object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn with_info(id: &SessionId, info: Value) -> Value {
    json_object([("sessionID", json!(id)), ("info", info)])
}

/// How a request ended, in the words clients take it off the screen with. What was not answered is gone
/// as if it had been turned down.
fn resolution_event(
    id: &SessionId,
    request: &RequestId,
    state: &RequestState,
) -> (&'static str, Value) {
    let mut said = json!({ "sessionID": id, "requestID": request });
    let kind = match request {
        RequestId::Permission(_) => {
            let reply = match state {
                RequestState::Replied { reply, .. } => *reply,
                RequestState::Pending
                | RequestState::Answered { .. }
                | RequestState::Rejected
                | RequestState::Withdrawn => PermissionReply::Reject,
            };
            said["reply"] = json!(reply);
            "permission.replied"
        }
        RequestId::Question(_) => match state {
            RequestState::Answered { answers } => {
                said["answers"] = json!(answers);
                "question.replied"
            }
            RequestState::Pending
            | RequestState::Replied { .. }
            | RequestState::Rejected
            | RequestState::Withdrawn => "question.rejected",
        },
    };
    (kind, said)
}

fn message_event_properties(id: &SessionId, message: &Message) -> EventProperties {
    let mut says = vec![("message.updated", with_info(id, wire::message_info(message)))];
    // A summary is written once its message is complete; nothing touches the message afterwards.
    if let MessageBody::Assistant(assistant) = &message.body
        && assistant.summary == Some(true)
        && assistant.time.completed.is_some()
        && assistant.error.is_none()
    {
        says.push(("session.compacted", json!({ "sessionID": id })));
    }
    says
}

/// All that is left of a session that was purged.
fn deleted_session_json(session: &FeedSession) -> Value {
    let mut info = json!({ "id": session.id });
    if let Some((directory, project)) = &session.location {
        info["directory"] = json!(directory);
        info["projectID"] = json!(project);
    }
    info
}

/// A session as it was, with where it stood (R19).
///
/// While it is still there, the diff against the disk is shown too; it is derived, and as of now.
fn historical_session_json(engine: &Engine, ctx: &Context, then: &HistoricalSession) -> Value {
    let mut session = then.session.clone();
    session.revert = match (&then.head, then.is_head_current) {
        (None, _) => None,
        (Some(head), true) => match engine.history().reverts().view(ctx, &session.id) {
            Ok(view) => view,
            Err(error) => {
                tracing::warn!("the position of {} is sent without its diff: {error}", session.id);
                Some(revert_without_diff(head))
            }
        },
        (Some(head), false) => Some(revert_without_diff(head)),
    };
    wire::session_info(&session, then.usage)
}

fn revert_without_diff(head: &SessionHead) -> RevertState {
    let (message, part) = (head.message.clone(), head.part.clone());
    RevertState { message, part, snapshot: None, diff: None, extra: ExtraFields::default() }
}
