//! Projections of change sets and operations.

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::Value;
use turnstone_core::event::EventKind;
use turnstone_core::operation::{HeadTarget, UndoExtent, UndoneChangeSet};

use super::ProjectionEvent;
use super::session::{read_fields, require_session};
use crate::error::Result;
use crate::table_row_ids::SessionNum;

#[derive(Deserialize)]
struct ChangeOpenedFields {
    id: String,
    turn: String,
    root: ChangeRootFields,
    evidence: String,
}

#[derive(Deserialize)]
struct ChangeRootFields {
    store: String,
}

#[derive(Deserialize)]
struct ChangeClosedFields {
    evidence: String,
}

pub(super) fn apply_change_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    if event.kind == EventKind::ChangeClosed {
        let head: ChangeClosedFields = read_fields(event)?;
        conn.prepare_cached("UPDATE change SET closed = ?2, evidence = ?3 WHERE num = ?1")?
            .execute((event.entity, event.cursor, head.evidence))?;
        return Ok(());
    }
    let head: ChangeOpenedFields = read_fields(event)?;
    conn.prepare_cached(
        "INSERT INTO change (num, id, session, turn, root, evidence, opened)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute((
        event.entity,
        head.id,
        require_session(event)?,
        head.turn,
        head.root.store,
        head.evidence,
        event.cursor,
    ))?;
    Ok(())
}

#[derive(Deserialize)]
struct OperationPlannedFields {
    id: String,
    kind: String,
}

#[derive(Deserialize)]
struct OperationDoneFields {
    head: HeadTarget,
    taken: Vec<UndoneChangeSet>,
}

pub(super) fn apply_operation_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    let session = require_session(event)?;
    if event.kind == EventKind::OperationPlanned {
        let head: OperationPlannedFields = read_fields(event)?;
        conn.prepare_cached(
            "INSERT INTO operation (num, id, session, kind, planned) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((event.entity, head.id, session, head.kind, event.cursor))?;
        return Ok(());
    }
    let done: OperationDoneFields = read_fields(event)?;
    conn.prepare_cached("UPDATE operation SET done = ?2 WHERE num = ?1")?
        .execute((event.entity, event.cursor))?;
    match done.head {
        HeadTarget::Stay => {}
        HeadTarget::Tip => {
            conn.prepare_cached("DELETE FROM head WHERE session = ?1")?.execute([session])?;
        }
        HeadTarget::To(to) => {
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
        save_undone_extent(conn, session, event.entity, &taken)?;
    }
    Ok(())
}

fn save_undone_extent(
    conn: &Connection,
    session: SessionNum,
    operation: i64,
    taken: &UndoneChangeSet,
) -> Result<()> {
    let paths = match &taken.extent {
        UndoExtent::Nothing => {
            conn.prepare_cached("DELETE FROM taken WHERE change = ?1")?
                .execute([taken.change.as_str()])?;
            return Ok(());
        }
        UndoExtent::All => None,
        UndoExtent::Paths(paths) => Some(Value::to_string(&serde_json::to_value(paths)?)),
    };
    conn.prepare_cached(
        "INSERT OR REPLACE INTO taken (change, session, operation, paths) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute((taken.change.as_str(), session, operation, paths))?;
    Ok(())
}
