//! What belongs to nothing, what is not for us, and what is not known.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::Value;

use super::super::json_files;
use super::super::source_record::{OrderedSession, RecordSink, SourceRecord, hand};
use super::{
    DatabaseFlow, KeyedQuery, OpenCodeDatabase, message_record, part_record, read_diff_file,
    row_json,
};
use crate::record_kind::RecordKind;

/// Why rows of the second runner stay where they are.
const V2_REASON: &str = "written by OpenCode's experimental v2 runner; not imported";

impl OpenCodeDatabase {
    /// Diffs of sessions that are no more.
    pub(super) fn read_orphan_diffs(
        &self,
        sessions: &[OrderedSession<i64>],
        sink: RecordSink<'_>,
    ) -> DatabaseFlow {
        let known: BTreeSet<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
        for entry in json_files::list_files(&self.diffs)? {
            match &entry {
                json_files::JsonDirEntry::Json { name, .. } if known.contains(name.as_str()) => {}
                json_files::JsonDirEntry::Json { .. } | json_files::JsonDirEntry::Other { .. } => {
                    hand!(sink(read_diff_file(&entry)));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Rows that belong to nothing; the import says so of each.
    pub(super) fn read_orphans(&self, sink: RecordSink<'_>) -> DatabaseFlow {
        let messages = KeyedQuery {
            keys: "SELECT m.rowid FROM message m WHERE NOT EXISTS
                     (SELECT 1 FROM session s WHERE s.id = m.session_id) ORDER BY m.id",
            row: "SELECT * FROM message WHERE rowid = ?1",
            of: None,
        };
        hand!(self.visit_rows((RecordKind::Message, messages), sink, &mut |row, sink| {
            let id = row.text("id").unwrap_or_default();
            hand!(sink(message_record(&id, row)));
            self.read_parts(&id, row, sink)
        })?);
        let parts = KeyedQuery {
            keys: "SELECT p.rowid FROM part p WHERE NOT EXISTS
                     (SELECT 1 FROM message m WHERE m.id = p.message_id) ORDER BY p.id",
            row: "SELECT * FROM part WHERE rowid = ?1",
            of: None,
        };
        hand!(self.visit_rows((RecordKind::Part, parts), sink, &mut |row, sink| {
            let message = row.text("message_id").unwrap_or_default();
            Ok(sink(part_record(&row.text("id").unwrap_or_default(), &message, row)))
        })?);
        self.read_orphan_extras(sink)
    }

    fn read_orphan_extras(&self, sink: RecordSink<'_>) -> DatabaseFlow {
        if self.has_table("todo") {
            let query = KeyedQuery {
                keys: "SELECT t.rowid FROM todo t WHERE NOT EXISTS
                         (SELECT 1 FROM session s WHERE s.id = t.session_id)
                       ORDER BY t.session_id, t.position",
                row: "SELECT * FROM todo WHERE rowid = ?1",
                of: None,
            };
            hand!(self.visit_rows((RecordKind::Todo, query), sink, &mut |row, sink| {
                let session = row.text("session_id").unwrap_or_default();
                Ok(sink(SourceRecord::Todos {
                    session,
                    body: Value::Array(vec![row_json::todo_json(row)]),
                }))
            })?);
        }
        if self.has_table("session_share") {
            let query = KeyedQuery {
                keys: "SELECT h.rowid FROM session_share h WHERE NOT EXISTS
                         (SELECT 1 FROM session s WHERE s.id = h.session_id) ORDER BY h.session_id",
                row: "SELECT * FROM session_share WHERE rowid = ?1",
                of: None,
            };
            hand!(self.visit_rows((RecordKind::Share, query), sink, &mut |row, sink| {
                let session = row.text("session_id").unwrap_or_default();
                Ok(sink(SourceRecord::Share { session, body: row_json::share_json(row) }))
            })?);
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn read_v2_rows(&self, sink: RecordSink<'_>) -> DatabaseFlow {
        let message = KeyedQuery {
            keys: "SELECT rowid FROM session_message ORDER BY id",
            row: "SELECT id FROM session_message WHERE rowid = ?1",
            of: None,
        };
        let input = KeyedQuery {
            keys: "SELECT rowid FROM session_input ORDER BY id",
            row: "SELECT id FROM session_input WHERE rowid = ?1",
            of: None,
        };
        for (table, query) in [("session_message", message), ("session_input", input)] {
            if self.has_table(table) {
                hand!(self.visit_rows(
                    (RecordKind::V2Message, query),
                    sink,
                    &mut |row, sink| {
                        let id = row.text("id").unwrap_or_default();
                        Ok(sink(SourceRecord::Unreadable {
                            kind: RecordKind::V2Message,
                            id,
                            reason: V2_REASON.to_owned(),
                        }))
                    }
                )?);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn note_unknown_columns(&self, sink: RecordSink<'_>) -> DatabaseFlow {
        let columns = self.tables.get("session").into_iter().flatten();
        for column in columns.filter(|column| !row_json::SESSION_COLUMNS.contains(&column.as_str()))
        {
            let note = format!("column {column} of table session is not known and not imported");
            hand!(sink(SourceRecord::Note(note)));
        }
        Ok(ControlFlow::Continue(()))
    }
}
