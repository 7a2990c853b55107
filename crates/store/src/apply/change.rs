//! Projections of change sets and operations.

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::Value;
use turnstone_core::event::EventKind;
use turnstone_core::operation::{Extent, HeadMove, Taken};

use super::Applied;
use super::place::{head, session_of};
use crate::error::Result;

#[derive(Deserialize)]
struct OpenedHead {
    id: String,
    turn: String,
    root: RootHead,
    evidence: String,
}

#[derive(Deserialize)]
struct RootHead {
    store: String,
}

#[derive(Deserialize)]
struct ClosedHead {
    evidence: String,
}

pub(super) fn change(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    if event.kind == EventKind::ChangeClosed {
        let head: ClosedHead = head(event)?;
        conn.prepare_cached("UPDATE change SET closed = ?2, evidence = ?3 WHERE num = ?1")?
            .execute((event.entity, event.cursor, head.evidence))?;
        return Ok(());
    }
    let head: OpenedHead = head(event)?;
    conn.prepare_cached(
        "INSERT INTO change (num, id, session, turn, root, evidence, opened)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute((
        event.entity,
        head.id,
        session_of(event)?,
        head.turn,
        head.root.store,
        head.evidence,
        event.cursor,
    ))?;
    Ok(())
}

#[derive(Deserialize)]
struct PlannedHead {
    id: String,
    kind: String,
}

#[derive(Deserialize)]
struct DoneHead {
    head: HeadMove,
    taken: Vec<Taken>,
}

pub(super) fn operation(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    let session = session_of(event)?;
    if event.kind == EventKind::OperationPlanned {
        let head: PlannedHead = head(event)?;
        conn.prepare_cached(
            "INSERT INTO operation (num, id, session, kind, planned) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((event.entity, head.id, session, head.kind, event.cursor))?;
        return Ok(());
    }
    let done: DoneHead = head(event)?;
    conn.prepare_cached("UPDATE operation SET done = ?2 WHERE num = ?1")?
        .execute((event.entity, event.cursor))?;
    match done.head {
        HeadMove::Stay => {}
        HeadMove::Tip => {
            conn.prepare_cached("DELETE FROM head WHERE session = ?1")?.execute([session])?;
        }
        HeadMove::To(to) => {
            conn.prepare_cached(
                "INSERT OR REPLACE INTO head (session, operation, message, part)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((
                session,
                event.entity,
                to.message.as_str(),
                to.part.as_ref().map(turnstone_core::id::PartId::as_str),
            ))?;
        }
    }
    for taken in done.taken {
        take(conn, session, event.entity, &taken)?;
    }
    Ok(())
}

fn take(conn: &Connection, session: i64, operation: i64, taken: &Taken) -> Result<()> {
    let paths = match &taken.extent {
        Extent::Nothing => {
            conn.prepare_cached("DELETE FROM taken WHERE change = ?1")?
                .execute([taken.change.as_str()])?;
            return Ok(());
        }
        Extent::All => None,
        Extent::Paths(paths) => Some(Value::to_string(&serde_json::to_value(paths)?)),
    };
    conn.prepare_cached(
        "INSERT OR REPLACE INTO taken (change, session, operation, paths) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute((taken.change.as_str(), session, operation, paths))?;
    Ok(())
}
