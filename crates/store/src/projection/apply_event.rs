//! The one way from an event to the tables.

use rusqlite::Connection;
use turnstone_core::event::{EntityClass, EventKind};

use super::{change_set, message, session, turn};
use crate::error::Result;
use crate::table_row_ids::SessionNum;

/// An event as projections see it.
pub(crate) struct ProjectionEvent<'a> {
    pub(crate) cursor: i64,
    pub(crate) session: Option<SessionNum>,
    pub(crate) seq: i64,
    pub(crate) kind: EventKind,
    pub(crate) entity: i64,
    pub(crate) actor: i64,
    pub(crate) time: i64,
    pub(crate) payload: Option<&'a str>,
    pub(crate) text: Option<(i64, i64)>,
}

/// Brings the projections to where they are after `event`.
pub(crate) fn apply_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    match event.kind.class() {
        EntityClass::Project => session::apply_project_event(conn, event),
        EntityClass::Session => session::apply_session_event(conn, event),
        EntityClass::Approval => session::apply_approval_event(conn, event),
        EntityClass::Share => session::apply_share_event(conn, event),
        EntityClass::Todo => session::apply_todo_event(conn, event),
        EntityClass::Diff => session::apply_diff_event(conn, event),
        EntityClass::Message => message::apply_message_event(conn, event),
        EntityClass::Part => message::apply_part_event(conn, event),
        EntityClass::Turn => turn::apply_turn_event(conn, event),
        EntityClass::Status => turn::apply_status_event(conn, event),
        EntityClass::Request => turn::apply_request_event(conn, event),
        EntityClass::Input => turn::apply_input_event(conn, event),
        EntityClass::Change => change_set::apply_change_event(conn, event),
        EntityClass::Operation => change_set::apply_operation_event(conn, event),
    }
}
