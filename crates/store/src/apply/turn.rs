//! Projections of turns, their requests and the inbox.

use rusqlite::Connection;
use serde::Deserialize;
use turnstone_core::event::EventKind;
use turnstone_core::turn::{Outcome, TurnEvent, TurnState};

use super::Applied;
use super::place::{head, session_of};
use crate::error::{Result, StoreError};

#[derive(Deserialize)]
struct AcceptedHead {
    id: String,
    message: String,
}

#[derive(Deserialize)]
struct EndedHead {
    outcome: Outcome,
}

/// Turn states move by the one table of `core`, here as well as live.
pub(super) fn turn(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the class of the event leaves these six")]
    let step = match event.kind {
        EventKind::TurnAccepted => {
            let head: AcceptedHead = head(event)?;
            conn.prepare_cached(
                "INSERT INTO turn (num, id, session, message, state, image)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute((
                event.entity,
                head.id,
                session_of(event)?,
                head.message,
                TurnState::Accepted.as_str(),
                event.cursor,
            ))?;
            return Ok(());
        }
        // The state moves when the turn ends, by whoever runs it.
        EventKind::TurnAbortAsked => return Ok(()),
        EventKind::TurnStarted => TurnEvent::Started,
        EventKind::TurnAsked => TurnEvent::Asked,
        EventKind::TurnAnswered => TurnEvent::Answered,
        _ => TurnEvent::Ended { outcome: head::<EndedHead>(event)?.outcome },
    };
    let state = turn_state(conn, event.entity)?;
    let after = state.after(&step)?;
    let started = (event.kind == EventKind::TurnStarted).then_some(event.time);
    let ended = (!after.is_open()).then_some(event.time);
    conn.prepare_cached(
        "UPDATE turn SET state = ?2, started = coalesce(started, ?3), ended = coalesce(ended, ?4),
           image = ?5, status = NULL
         WHERE num = ?1",
    )?
    .execute((event.entity, after.as_str(), started, ended, event.cursor))?;
    Ok(())
}

/// The stored state of a turn.
pub(crate) fn turn_state(conn: &Connection, turn: i64) -> Result<TurnState> {
    let text: String = conn
        .prepare_cached("SELECT state FROM turn WHERE num = ?1")?
        .query_row([turn], |row| row.get(0))?;
    TurnState::parse(&text).ok_or_else(|| StoreError::Internal(format!("turn state {text:?}")))
}

/// The entity of a retry is its turn. Any later step of the turn makes it out of date; comparing
/// cursors instead of relying on the order of calls gives a rebuild the same answer.
pub(super) fn status(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    conn.prepare_cached("UPDATE turn SET status = ?2 WHERE num = ?1 AND image < ?2")?
        .execute((event.entity, event.cursor))?;
    Ok(())
}

#[derive(Deserialize)]
struct RequestHead {
    id: String,
    body: RequestBodyHead,
}

#[derive(Deserialize)]
struct RequestBodyHead {
    kind: String,
}

pub(super) fn request(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    if event.kind == EventKind::RequestResolved {
        conn.prepare_cached("UPDATE request SET pending = 0, resolved = ?2 WHERE num = ?1")?
            .execute((event.entity, event.cursor))?;
        return Ok(());
    }
    let head: RequestHead = head(event)?;
    conn.prepare_cached(
        "INSERT INTO request (num, id, session, kind, pending, asked)
         VALUES (?1, ?2, ?3, ?4, 1, ?5)",
    )?
    .execute((event.entity, head.id, session_of(event)?, head.body.kind, event.cursor))?;
    Ok(())
}

#[derive(Deserialize)]
struct InputHead {
    id: String,
    delivery: String,
}

pub(super) fn input(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    if event.kind == EventKind::InputPromoted {
        conn.prepare_cached("UPDATE input SET promoted = ?2 WHERE num = ?1")?
            .execute((event.entity, event.seq))?;
        return Ok(());
    }
    let head: InputHead = head(event)?;
    conn.prepare_cached(
        "INSERT INTO input (num, message, session, delivery, admitted) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((event.entity, head.id, session_of(event)?, head.delivery, event.seq))?;
    Ok(())
}
