//! What happened, in the three forms it is sent: written once, shared by all who read it.

use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::lone_surrogates::encode_json;
use turnstone_core::time::{EpochMillis, LogCursor};

use super::event_id::StreamPosition;

/// The directory under which OpenCode tells what belongs to none.
const GLOBAL_DIRECTORY: &str = "global";

/// The form of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StreamFormat {
    /// `/event`: one directory.
    Instance,
    /// `/global/event`: everything, with its directory, and a second time with its number.
    Global,
    /// `/api/event`: everything, in the second form of the interface.
    Api,
}

/// Where something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventScope {
    /// The directory; none: it belongs to no directory.
    pub(crate) directory: Option<Arc<str>>,
    /// The project, if it is known.
    pub(crate) project: Option<Arc<str>>,
}

/// The number OpenCode gives an event within its session (R25).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyncNumber {
    /// The session.
    pub(crate) session: SessionId,
    /// The number.
    pub(crate) seq: i64,
}

/// One event for clients.
#[derive(Clone, Debug)]
pub(crate) struct WireEvent {
    /// Its name.
    pub(crate) id: String,
    /// Its type, e.g. `session.updated`.
    pub(crate) kind: String,
    /// Its properties, as JSON.
    pub(crate) properties: String,
    /// Its number, if OpenCode numbers it.
    pub(crate) numbered: Option<SyncNumber>,
}

/// One frame as it goes over the wire.
#[derive(Clone, Debug)]
pub(crate) struct SseFrame {
    /// Which frame of its happening it is, the same in every form.
    pub(crate) frame: u32,
    /// The frame.
    pub(crate) bytes: Bytes,
}

/// What one event of the log becomes, or one ephemeral event.
#[derive(Debug)]
pub(crate) struct StreamEvent {
    /// The event of the log; for an ephemeral one the last before it.
    pub(crate) cursor: LogCursor,
    /// True if it is in the log.
    pub(crate) is_logged: bool,
    /// When something was here that compaction took: the moment of it (R25).
    pub(crate) gap: Option<EpochMillis>,
    /// The session it belongs to.
    pub(crate) session: Option<SessionId>,
    scope: EventScope,
    wire_events: Vec<WireEvent>,
    frames: [OnceLock<Vec<SseFrame>>; 3],
}

impl StreamEvent {
    /// What an event of the log becomes.
    pub(crate) fn from_log(
        cursor: LogCursor,
        session: Option<SessionId>,
        scope: EventScope,
        event: Vec<WireEvent>,
    ) -> Self {
        Self { is_logged: true, session, wire_events: event, ..Self::empty(cursor, scope) }
    }

    /// An ephemeral event, after the event `cursor`.
    pub(crate) fn ephemeral(cursor: LogCursor, scope: EventScope, event: WireEvent) -> Self {
        Self { wire_events: vec![event], ..Self::empty(cursor, scope) }
    }

    /// Something that compaction took from the log.
    pub(crate) fn compacted_gap(cursor: LogCursor, time: EpochMillis) -> Self {
        Self { is_logged: true, gap: Some(time), ..Self::empty(cursor, EventScope::default()) }
    }

    fn empty(cursor: LogCursor, scope: EventScope) -> Self {
        let (event, shown) = (Vec::new(), Default::default());
        Self {
            cursor,
            is_logged: false,
            gap: None,
            session: None,
            scope,
            wire_events: event,
            frames: shown,
        }
    }

    /// The same, sent again to a client that may have missed it: without position and number.
    pub(crate) fn into_resend(mut self) -> Self {
        self.is_logged = false;
        for event in &mut self.wire_events {
            event.numbered = None;
        }
        self
    }

    /// True if no stream gets anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.wire_events.is_empty() && self.gap.is_none()
    }

    /// What of it has a number, and the number.
    pub(crate) fn numbered_event(&self) -> Option<(&WireEvent, &SyncNumber)> {
        self.wire_events.iter().find_map(|event| Some((event, event.numbered.as_ref()?)))
    }

    /// The properties of what clients read of it, as JSON.
    pub(crate) fn properties(&self) -> impl Iterator<Item = &str> {
        self.wire_events.iter().map(|event| event.properties.as_str())
    }

    /// About how much memory it takes once it was sent in all forms.
    pub(crate) fn memory_bytes(&self) -> usize {
        256 + self.wire_events.iter().map(|event| 256 + 5 * event.properties.len()).sum::<usize>()
    }

    /// True if it happened in `directory`.
    pub(crate) fn is_in_directory(&self, directory: &str) -> bool {
        self.scope.directory.as_deref() == Some(directory)
    }

    /// True if the instance of its directory is gone after it.
    pub(crate) fn is_instance_disposed(&self) -> bool {
        self.wire_events.iter().any(|event| event.kind == "server.instance.disposed")
    }

    /// The frames of a form; made on first use.
    pub(crate) fn frames(&self, wire: StreamFormat) -> &[SseFrame] {
        self.frames[wire as usize].get_or_init(|| self.render_frames(wire))
    }

    fn render_frames(&self, wire: StreamFormat) -> Vec<SseFrame> {
        let mut frames: Vec<(u32, String)> = Vec::with_capacity(self.wire_events.len() * 2);
        for (nth, event) in self.wire_events.iter().enumerate() {
            let frame = 2 * nth as u32;
            match wire {
                StreamFormat::Instance => frames.push((frame, instance_json(event))),
                StreamFormat::Api => frames.push((frame, self.api_json(event))),
                StreamFormat::Global => {
                    frames.push((frame, self.global_json(&instance_json(event))));
                    if let Some(numbered) = &event.numbered {
                        frames.push((frame + 1, self.global_json(&sync_json(event, numbered))));
                    }
                }
            }
        }
        let last = frames.len().saturating_sub(1);
        let show = |(nth, (frame, json)): (usize, (u32, String))| {
            let inside = (nth < last).then_some(frame);
            let place =
                self.is_logged.then_some(StreamPosition { cursor: self.cursor, frame: inside });
            SseFrame { frame, bytes: sse_frame(place, &json) }
        };
        frames.into_iter().enumerate().map(show).collect()
    }

    fn global_json(&self, payload: &str) -> String {
        let directory = json_string(self.scope.directory.as_deref().unwrap_or(GLOBAL_DIRECTORY));
        match &self.scope.project {
            Some(project) => {
                let project = json_string(project);
                format!(r#"{{"directory":{directory},"project":{project},"payload":{payload}}}"#)
            }
            None => format!(r#"{{"directory":{directory},"payload":{payload}}}"#),
        }
    }

    fn api_json(&self, event: &WireEvent) -> String {
        let (id, kind) = (json_string(&event.id), json_string(&event.kind));
        let durable = event.numbered.as_ref().map(|numbered| {
            let (seq, session) = (numbered.seq, json_string(numbered.session.as_str()));
            format!(r#""durable":{{"aggregateID":{session},"seq":{seq},"version":1}},"#)
        });
        let location = self.scope.directory.as_ref().map(|directory| {
            let directory = json_string(directory);
            format!(r#""location":{{"directory":{directory}}},"#)
        });
        let (durable, location) = (durable.unwrap_or_default(), location.unwrap_or_default());
        let data = &event.properties;
        format!(r#"{{"id":{id},"type":{kind},{durable}{location}"data":{data}}}"#)
    }
}

/// An event as `/event` shows it.
fn instance_json(event: &WireEvent) -> String {
    let (id, kind) = (json_string(&event.id), json_string(&event.kind));
    format!(r#"{{"id":{id},"type":{kind},"properties":{}}}"#, event.properties)
}

/// An event with its number, as replicas read it.
fn sync_json(event: &WireEvent, numbered: &SyncNumber) -> String {
    let id = json_string(&event.id);
    let (kind, session) =
        (json_string(&format!("{}.1", event.kind)), json_string(numbered.session.as_str()));
    let (seq, data) = (numbered.seq, &event.properties);
    format!(
        r#"{{"type":"sync","syncEvent":{{"id":{id},"type":{kind},"seq":{seq},"aggregateID":{session},"data":{data}}},"id":{id}}}"#
    )
}

fn json_string(text: &str) -> String {
    Value::from(text).to_string()
}

/// A frame of a stream, with the place after it if there is one to come back to.
pub(crate) fn sse_frame(place: Option<StreamPosition>, json: &str) -> Bytes {
    let json = encode_json(json);
    match place {
        Some(place) => format!("id: {place}\ndata: {json}\n\n").into(),
        None => format!("data: {json}\n\n").into(),
    }
}

/// A frame a stream sends of itself: that it is connected, that it lives.
pub(crate) fn control_frame(wire: StreamFormat, place: StreamPosition, event: &WireEvent) -> Bytes {
    let json = match wire {
        StreamFormat::Instance => instance_json(event),
        StreamFormat::Global => format!(r#"{{"payload":{}}}"#, instance_json(event)),
        StreamFormat::Api => {
            let (id, kind) = (json_string(&event.id), json_string(&event.kind));
            format!(r#"{{"id":{id},"type":{kind},"data":{}}}"#, event.properties)
        }
    };
    sse_frame(Some(place), &json)
}

impl WireEvent {
    /// Something to tell.
    pub(crate) fn new(id: impl Into<String>, kind: &str, properties: &Value) -> Self {
        let (id, kind) = (id.into(), kind.to_owned());
        Self { id, kind, properties: properties.to_string(), numbered: None }
    }

    /// Something that has nothing to say but its name.
    pub(crate) fn without_properties(id: impl Into<String>, kind: &str) -> Self {
        Self::new(id, kind, &json!({}))
    }
}
