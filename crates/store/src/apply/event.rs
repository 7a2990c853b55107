//! The one way from an event to the tables.

use rusqlite::Connection;
use turnstone_core::event::{EntityClass, EventKind};

use super::{change, content, place, turn};
use crate::error::Result;

/// An event as projections see it.
pub(crate) struct Applied<'a> {
    pub(crate) cursor: i64,
    pub(crate) session: Option<i64>,
    pub(crate) seq: i64,
    pub(crate) kind: EventKind,
    pub(crate) entity: i64,
    pub(crate) actor: i64,
    pub(crate) time: i64,
    pub(crate) payload: Option<&'a str>,
    pub(crate) text: Option<(i64, i64)>,
}

/// Brings the projections to where they are after `event`.
pub(crate) fn apply(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    match event.kind.class() {
        EntityClass::Project => place::project(conn, event),
        EntityClass::Session => place::session(conn, event),
        EntityClass::Approval => place::approval(conn, event),
        EntityClass::Share => place::share(conn, event),
        EntityClass::Todo => place::todo(conn, event),
        EntityClass::Diff => place::diff(conn, event),
        EntityClass::Message => content::message(conn, event),
        EntityClass::Part => content::part(conn, event),
        EntityClass::Turn => turn::turn(conn, event),
        EntityClass::Status => turn::status(conn, event),
        EntityClass::Request => turn::request(conn, event),
        EntityClass::Input => turn::input(conn, event),
        EntityClass::Change => change::change(conn, event),
        EntityClass::Operation => change::operation(conn, event),
    }
}
