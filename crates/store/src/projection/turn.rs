//! Projections of turns, their requests and the inbox.

use rusqlite::Connection;
use serde::Deserialize;
use turnstone_core::event::EventKind;
use turnstone_core::turn::{TurnEvent, TurnOutcome, TurnState};

use super::ProjectionEvent;
use super::session::{read_fields, require_session};
use crate::error::{Result, StoreError};
use crate::table_row_ids::TurnNum;

#[derive(Deserialize)]
struct TurnAcceptedFields {
    id: String,
    message: String,
    /// When it began, if another program ran it.
    imported: Option<i64>,
}

#[derive(Deserialize)]
struct TurnEndedFields {
    outcome: TurnOutcome,
    /// When it ended, if another program ran it.
    imported: Option<i64>,
}

/// Turn states move by the one table of `core`, here as well as live.
pub(super) fn apply_turn_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the class of the event leaves these six")]
    let step = match event.kind {
        EventKind::TurnAccepted => {
            let head: TurnAcceptedFields = read_fields(event)?;
            // A turn of an import is never open: no process of ours could end it.
            let state = match head.imported {
                Some(_) => TurnState::Interrupted,
                None => TurnState::Accepted,
            };
            conn.prepare_cached(
                "INSERT INTO turn (num, id, session, message, state, image, started, ended)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
            )?
            .execute((
                event.entity,
                head.id,
                require_session(event)?,
                head.message,
                state.as_str(),
                event.cursor,
                head.imported,
            ))?;
            return Ok(());
        }
        // The state changes when the process that runs the turn ends it.
        EventKind::TurnAbortAsked => return Ok(()),
        EventKind::TurnStarted => TurnEvent::Started,
        EventKind::TurnAsked => TurnEvent::Asked,
        EventKind::TurnAnswered => TurnEvent::Answered,
        _ => {
            let fields: TurnEndedFields = read_fields(event)?;
            if let Some(ended) = fields.imported {
                return apply_imported_end(conn, event, fields.outcome, ended);
            }
            TurnEvent::Ended { outcome: fields.outcome }
        }
    };
    let state = load_turn_state(conn, TurnNum(event.entity))?;
    let after = state.apply(&step)?;
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

/// How a turn of an import ended: what the source says now, whatever it said before.
fn apply_imported_end(
    conn: &Connection,
    event: &ProjectionEvent<'_>,
    outcome: TurnOutcome,
    ended: i64,
) -> Result<()> {
    conn.prepare_cached("UPDATE turn SET state = ?2, ended = ?3, image = ?4 WHERE num = ?1")?
        .execute((event.entity, outcome.state().as_str(), ended, event.cursor))?;
    Ok(())
}

/// The stored state of a turn.
pub(crate) fn load_turn_state(conn: &Connection, turn: TurnNum) -> Result<TurnState> {
    let text: String = conn
        .prepare_cached("SELECT state FROM turn WHERE num = ?1")?
        .query_row([turn], |row| row.get(0))?;
    TurnState::parse(&text).ok_or_else(|| StoreError::Internal(format!("turn state {text:?}")))
}

/// The entity of a retry is its turn. Any later step of the turn makes it out of date; comparing
/// cursors instead of relying on the order of calls gives a rebuild the same answer.
pub(super) fn apply_status_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    conn.prepare_cached("UPDATE turn SET status = ?2 WHERE num = ?1 AND image < ?2")?
        .execute((event.entity, event.cursor))?;
    Ok(())
}

#[derive(Deserialize)]
struct RequestFields {
    id: String,
    body: RequestBodyFields,
}

#[derive(Deserialize)]
struct RequestBodyFields {
    kind: String,
}

pub(super) fn apply_request_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    if event.kind == EventKind::RequestResolved {
        conn.prepare_cached("UPDATE request SET pending = 0, resolved = ?2 WHERE num = ?1")?
            .execute((event.entity, event.cursor))?;
        return Ok(());
    }
    let head: RequestFields = read_fields(event)?;
    conn.prepare_cached(
        "INSERT INTO request (num, id, session, kind, pending, asked)
         VALUES (?1, ?2, ?3, ?4, 1, ?5)",
    )?
    .execute((
        event.entity,
        head.id,
        require_session(event)?,
        head.body.kind,
        event.cursor,
    ))?;
    Ok(())
}

#[derive(Deserialize)]
struct InputFields {
    id: String,
    delivery: String,
}

pub(super) fn apply_input_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    if event.kind == EventKind::InputPromoted {
        conn.prepare_cached("UPDATE input SET promoted = ?2 WHERE num = ?1")?
            .execute((event.entity, event.seq))?;
        return Ok(());
    }
    let head: InputFields = read_fields(event)?;
    conn.prepare_cached(
        "INSERT INTO input (num, message, session, delivery, admitted) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((event.entity, head.id, require_session(event)?, head.delivery, event.seq))?;
    Ok(())
}
