//! What belongs to nothing, what is not for us, and what is not known.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::Value;

use super::super::files;
use super::super::record::{Ranked, Record, Sink, hand};
use super::{Database, Flow, Query, diff_file, message, part, shape};
use crate::kind::Kind;

/// Why rows of the second runner stay where they are.
const SECOND: &str = "written by OpenCode's experimental v2 runner; not imported";

impl Database {
    /// Diffs of sessions that are no more.
    pub(super) fn stray_diffs(&self, sessions: &[Ranked<i64>], sink: Sink<'_>) -> Flow {
        let known: BTreeSet<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
        for entry in files::list_files(&self.diffs)? {
            match &entry {
                files::Entry::Json { name, .. } if known.contains(name.as_str()) => {}
                files::Entry::Json { .. } | files::Entry::Other { .. } => {
                    hand!(sink(diff_file(&entry)));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Rows that belong to nothing; the import says so of each.
    pub(super) fn strays(&self, sink: Sink<'_>) -> Flow {
        let messages = Query {
            keys: "SELECT m.rowid FROM message m WHERE NOT EXISTS
                     (SELECT 1 FROM session s WHERE s.id = m.session_id) ORDER BY m.id",
            row: "SELECT * FROM message WHERE rowid = ?1",
            of: None,
        };
        hand!(self.rows((Kind::Message, messages), sink, &mut |row, sink| {
            let id = row.text("id").unwrap_or_default();
            hand!(sink(message(&id, row)));
            self.parts(&id, row, sink)
        })?);
        let parts = Query {
            keys: "SELECT p.rowid FROM part p WHERE NOT EXISTS
                     (SELECT 1 FROM message m WHERE m.id = p.message_id) ORDER BY p.id",
            row: "SELECT * FROM part WHERE rowid = ?1",
            of: None,
        };
        hand!(self.rows((Kind::Part, parts), sink, &mut |row, sink| {
            let message = row.text("message_id").unwrap_or_default();
            Ok(sink(part(&row.text("id").unwrap_or_default(), &message, row)))
        })?);
        self.stray_belongings(sink)
    }

    fn stray_belongings(&self, sink: Sink<'_>) -> Flow {
        if self.has("todo") {
            let query = Query {
                keys: "SELECT t.rowid FROM todo t WHERE NOT EXISTS
                         (SELECT 1 FROM session s WHERE s.id = t.session_id)
                       ORDER BY t.session_id, t.position",
                row: "SELECT * FROM todo WHERE rowid = ?1",
                of: None,
            };
            hand!(self.rows((Kind::Todo, query), sink, &mut |row, sink| {
                let session = row.text("session_id").unwrap_or_default();
                Ok(sink(Record::Todos { session, body: Value::Array(vec![shape::todo(row)]) }))
            })?);
        }
        if self.has("session_share") {
            let query = Query {
                keys: "SELECT h.rowid FROM session_share h WHERE NOT EXISTS
                         (SELECT 1 FROM session s WHERE s.id = h.session_id) ORDER BY h.session_id",
                row: "SELECT * FROM session_share WHERE rowid = ?1",
                of: None,
            };
            hand!(self.rows((Kind::Share, query), sink, &mut |row, sink| {
                let session = row.text("session_id").unwrap_or_default();
                Ok(sink(Record::Share { session, body: shape::share(row) }))
            })?);
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn second_runner(&self, sink: Sink<'_>) -> Flow {
        let message = Query {
            keys: "SELECT rowid FROM session_message ORDER BY id",
            row: "SELECT id FROM session_message WHERE rowid = ?1",
            of: None,
        };
        let input = Query {
            keys: "SELECT rowid FROM session_input ORDER BY id",
            row: "SELECT id FROM session_input WHERE rowid = ?1",
            of: None,
        };
        for (table, query) in [("session_message", message), ("session_input", input)] {
            if self.has(table) {
                hand!(self.rows((Kind::Second, query), sink, &mut |row, sink| {
                    let id = row.text("id").unwrap_or_default();
                    Ok(sink(Record::Bad { kind: Kind::Second, id, reason: SECOND.to_owned() }))
                })?);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn unknown_columns(&self, sink: Sink<'_>) -> Flow {
        let columns = self.tables.get("session").into_iter().flatten();
        for column in columns.filter(|column| !shape::SESSION_COLUMNS.contains(&column.as_str())) {
            let note = format!("column {column} of table session is not known and not imported");
            hand!(sink(Record::Note(note)));
        }
        Ok(ControlFlow::Continue(()))
    }
}
