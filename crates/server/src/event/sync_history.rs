//! The numbered history of sessions: handed out to replicas, and taken over from them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::time::EpochMillis;
use turnstone_core::wire::{self, ParseMode, ShapeError};
use turnstone_engine::{Engine, ReplicatedEvent};
use turnstone_store::{Context, FeedCache, SyncBody, SyncEvent};

use super::translation;
use crate::error::ApiError;
use crate::project_directory::ProjectDirectory;

/// Numbers that are read of every session at a time.
const WINDOW_NUMBERS: i64 = 64;

/// The events of all sessions, in the order of their numbers, a piece at a time.
pub(crate) struct SyncHistory {
    ctx: Context,
    /// Each session with the last number the client knows and the last there is.
    sessions: Vec<(SessionId, i64, i64)>,
    from: i64,
    memo: FeedCache,
}

impl SyncHistory {
    /// Everything but what `known` names: by session, the last number the client has.
    pub(crate) fn start(
        engine: &Engine,
        ctx: &Context,
        known: &BTreeMap<String, i64>,
    ) -> Result<Self, ApiError> {
        let all = engine.store().read(ctx, |r| r.sync().sessions_with_seq())?;
        let wanted = all.into_iter().map(|(id, last)| {
            let known = known.get(id.as_str()).copied().unwrap_or(-1);
            (id, known.max(-1), last)
        });
        let sessions = wanted.filter(|(_, known, last)| known < last).collect();
        Ok(Self { ctx: ctx.clone(), sessions, from: 0, memo: FeedCache::default() })
    }

    /// True if there is nothing more.
    pub(crate) fn is_finished(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The next events as members of a JSON list; none at the end.
    pub(crate) fn next_chunk(&mut self, engine: &Engine) -> Result<Option<String>, ApiError> {
        while !self.is_finished() {
            let mut rows = self.read_window(engine)?;
            self.from += WINDOW_NUMBERS;
            let from = self.from;
            self.sessions.retain(|(_, _, last)| *last >= from);
            if !rows.is_empty() {
                rows.sort();
                let rows: Vec<String> = rows.into_iter().map(|row| row.2).collect();
                return Ok(Some(rows.join(",")));
            }
        }
        Ok(None)
    }

    /// The rows of one window: number, cursor, JSON.
    fn read_window(&mut self, engine: &Engine) -> Result<Vec<(i64, i64, String)>, ApiError> {
        let (from, to) = (self.from, self.from + WINDOW_NUMBERS);
        let mut rows = Vec::new();
        for (id, known, _) in &self.sessions {
            let after = (*known).max(from - 1);
            let count = usize::try_from(to - 1 - after).unwrap_or(0);
            let read = engine.store().read(&self.ctx, |r| {
                if r.sessions().find(id)?.is_none() {
                    return Ok(Vec::new());
                }
                r.feed().sync_after(id, after, count, &mut self.memo)
            });
            for event in read? {
                let stream_event = translation::to_stream_event(engine, &self.ctx, &event);
                let Some((wire_event, numbered)) = stream_event.numbered_event() else { continue };
                let row = format!(
                    r#"{{"id":"{}","aggregate_id":"{id}","seq":{},"type":"{}.1","data":{}}}"#,
                    wire_event.id, numbered.seq, wire_event.kind, wire_event.properties
                );
                rows.push((numbered.seq, event.cursor.0, row));
            }
        }
        Ok(rows)
    }
}

/// One event of another server.
pub(crate) struct ReplayedEvent {
    /// Its session.
    pub(crate) session: SessionId,
    /// Its number.
    pub(crate) seq: i64,
    kind: String,
    data: Value,
    body: SyncBody,
}

impl ReplayedEvent {
    /// Reads an event; its type must be one that is numbered, and its data must be of its session.
    pub(crate) fn parse(
        session: SessionId,
        seq: i64,
        kind: &str,
        data: Value,
    ) -> Result<Self, ApiError> {
        if data["sessionID"] != json!(session) {
            return Err(ApiError::invalid_payload(
                "the data of an event names another session than it",
            ));
        }
        let wrong = |error: ShapeError| ApiError::invalid_payload(format!("{kind} {seq}: {error}"));
        let id = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        let no_id =
            |error: turnstone_core::id::IdError| ApiError::invalid_payload(error.to_string());
        let body = match kind {
            "session.created.1" | "session.updated.1" => {
                let read = wire::parse_session(data["info"].clone()).map_err(wrong)?;
                SyncBody::Session(Box::new(read))
            }
            "session.deleted.1" => SyncBody::SessionDeleted,
            "message.updated.1" => SyncBody::Message(Box::new(
                wire::parse_message(data["info"].clone()).map_err(wrong)?,
            )),
            "message.removed.1" => {
                SyncBody::MessageRemoved(id("messageID").parse().map_err(no_id)?)
            }
            "message.part.updated.1" => {
                let read =
                    wire::parse_part(data["part"].clone(), ParseMode::Lenient).map_err(wrong)?;
                SyncBody::Part(Box::new(read))
            }
            "message.part.removed.1" => SyncBody::PartRemoved {
                message: id("messageID").parse().map_err(no_id)?,
                part: id("partID").parse().map_err(no_id)?,
            },
            _ => return Err(ApiError::invalid_payload(format!("Unknown event type: {kind}"))),
        };
        let owner = match &body {
            SyncBody::Session(it) => &it.id,
            SyncBody::Message(it) => &it.session,
            SyncBody::Part(it) => &it.session,
            SyncBody::SessionDeleted
            | SyncBody::MessageRemoved(_)
            | SyncBody::PartRemoved { .. } => &session,
        };
        if *owner != session {
            return Err(ApiError::invalid_payload(
                "the data of an event is of another session than it",
            ));
        }
        Ok(Self { session, seq, kind: kind.to_owned(), data, body })
    }
}

/// Takes over events of another server; those that are here already change nothing.
pub(crate) fn replay_events(
    engine: &Engine,
    ctx: &Context,
    place: &ProjectDirectory,
    events: &[ReplayedEvent],
) -> Result<(), ApiError> {
    let Some(first) = events.first() else { return Ok(()) };
    for (event, seq) in events.iter().zip(first.seq..) {
        if event.session != first.session {
            return Err(ApiError::invalid_payload("the events of a replay are of one session"));
        }
        if event.seq != seq {
            let words =
                format!("the events of a replay follow each other: {seq}, not {}", event.seq);
            return Err(ApiError::invalid_payload(words));
        }
    }
    let new = skip_known_events(engine, ctx, events)?.iter().map(|event| ReplicatedEvent {
        seq: event.seq,
        time: event.data["time"].as_i64().map(EpochMillis),
        body: event.body.clone(),
    });
    Ok(engine.history().replication().replicate_events(
        ctx,
        &first.session,
        &place.project.id,
        new.collect(),
    )?)
}

/// Compares what is here with what comes; returns what is not here yet.
fn skip_known_events<'e>(
    engine: &Engine,
    ctx: &Context,
    events: &'e [ReplayedEvent],
) -> Result<&'e [ReplayedEvent], ApiError> {
    let (Some(first), count) = (events.first(), events.len()) else { return Ok(events) };
    let (id, after) = (&first.session, first.seq - 1);
    let read = engine.store().read(ctx, |r| {
        if r.sessions().find(id)?.is_none() {
            return Ok((Vec::new(), Vec::new()));
        }
        let memo = &mut FeedCache::default();
        Ok((r.sync().after(id, after, count)?, r.feed().sync_after(id, after, count, memo)?))
    });
    let (slots, here) = read?;
    for ((slot, here), event) in slots.iter().zip(&here).zip(events) {
        let stream_event = translation::to_stream_event(engine, ctx, here);
        let Some((wire_event, _)) = stream_event.numbered_event() else { continue };
        if slot.compacted {
            continue;
        }
        let same = event.kind == format!("{}.1", wire_event.kind)
            && without_derived_fields(&event.data)
                == without_derived_fields(
                    &serde_json::from_str(&wire_event.properties).unwrap_or_default(),
                );
        if !same {
            let words = format!("{id} diverged at number {}", event.seq);
            return Err(ApiError::invalid_payload(words));
        }
    }
    let known: &[SyncEvent] = &slots;
    Ok(&events[known.len()..])
}

/// The data without what each side derives for itself.
fn without_derived_fields(data: &Value) -> Value {
    let mut data = data.clone();
    if let Some(info) = data["info"].as_object_mut()
        && info.contains_key("slug")
    {
        for key in ["revert", "projectID", "cost", "tokens"] {
            info.remove(key);
        }
    }
    data
}
