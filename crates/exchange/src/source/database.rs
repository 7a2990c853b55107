//! OpenCode's SQLite database, of version 1.2.10 and of today.
//!
//! Columns are found by name, so that older and newer tables can be read alike; what every version has
//! must be there. Messages come in OpenCode's order, `(time_created, id)`; parts in the order their ids
//! were made, see [`crate::foreign_id::part_sort_key`].

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

use super::foreign_row::ForeignRow;
use super::json_files;
use super::private_copy::PrivateCopy;
use super::source_limits::{MAX_BYTES, MAX_ID, too_large_reason};
use super::source_record::{
    KindTotals, OrderedSession, RecordSink, SourceReader, SourceRecord, hand, parents_first,
};
use super::{Options, SourceError};
use crate::foreign_id;
use crate::record_kind::RecordKind;

mod foreign_schema;
mod orphan_rows;
mod row_json;
mod sandboxed_connection;

/// Entries of a to-do list that are imported.
const MAX_TODOS: usize = 10_000;

/// Which rows are read, and how one of them is.
#[derive(Clone, Copy)]
struct KeyedQuery<'a> {
    /// Selects the numbers of the rows, in order.
    keys: &'static str,
    /// Selects a row by its number.
    row: &'static str,
    /// What the rows belong to, where `keys` asks for that.
    of: Option<&'a str>,
}

type DatabaseFlow = Result<ControlFlow<()>, SourceError>;

/// A private copy of an OpenCode database, open for reading.
pub(super) struct OpenCodeDatabase {
    conn: Connection,
    /// Keeps the copy until the connection is closed.
    _copy: PrivateCopy,
    /// The original, as people named it.
    path: PathBuf,
    tables: foreign_schema::TableColumns,
    /// Where session diffs are, next to the database.
    diffs: PathBuf,
}

impl OpenCodeDatabase {
    /// Copies the database at `path` and opens the copy.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self, SourceError> {
        let copy = PrivateCopy::create(path, options)?;
        let damaged = |error: rusqlite::Error| to_source_error(path, &error);
        let conn = sandboxed_connection::open_sandboxed(&copy.path()).map_err(damaged)?;
        let tables = foreign_schema::list_tables(&conn).map_err(damaged)?;
        if tables.is_empty() {
            return Err(SourceError::Empty { path: path.to_path_buf() });
        }
        let missing = foreign_schema::missing_columns(&tables);
        if !missing.is_empty() {
            return Err(SourceError::UnknownSchema { path: path.to_path_buf(), missing });
        }
        let parent = path.parent().unwrap_or(Path::new(""));
        let diffs = parent.join("storage").join("session_diff");
        Ok(Self { conn, _copy: copy, path: path.to_path_buf(), tables, diffs })
    }

    /// How many sessions it holds.
    pub(super) fn session_count(&self) -> u64 {
        self.count("SELECT count(*) FROM session")
    }

    fn has_table(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    fn has_column(&self, table: &str, column: &str) -> bool {
        self.tables.get(table).is_some_and(|columns| columns.contains(column))
    }

    fn count(&self, sql: &'static str) -> u64 {
        let count = self.conn.query_row(sql, [], |row| row.get::<_, i64>(0));
        count.ok().and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
    }

    /// Hands rows to `visit`, one in memory at a time; a damaged row costs itself, not the import.
    fn visit_rows(
        &self,
        (kind, query): (RecordKind, KeyedQuery<'_>),
        sink: RecordSink<'_>,
        visit: &mut dyn FnMut(&ForeignRow, RecordSink<'_>) -> DatabaseFlow,
    ) -> DatabaseFlow {
        let keys = match self.select_keys(&query) {
            Ok(keys) => keys,
            Err(error) => {
                let of = query.of.unwrap_or(kind.name());
                return Ok(sink(unreadable(kind, of, &row_error_reason(&error))));
            }
        };
        for key in keys {
            hand!(match self.select_row(query.row, key) {
                Ok(row) => visit(&row, sink)?,
                Err(error) => {
                    let id = format!("{} row {key}", query.of.unwrap_or(kind.name()));
                    sink(unreadable(kind, &id, &row_error_reason(&error)))
                }
            });
        }
        Ok(ControlFlow::Continue(()))
    }

    fn select_keys(&self, query: &KeyedQuery<'_>) -> rusqlite::Result<Vec<i64>> {
        let mut statement = self.conn.prepare_cached(query.keys)?;
        match query.of {
            None => statement.query_map([], |row| row.get(0))?.collect(),
            Some(of) => statement.query_map([of], |row| row.get(0))?.collect(),
        }
    }

    fn select_row(&self, sql: &'static str, key: i64) -> rusqlite::Result<ForeignRow> {
        self.conn.prepare_cached(sql)?.query_row([key], ForeignRow::from_sqlite)
    }

    fn read_projects(&self, sink: RecordSink<'_>) -> DatabaseFlow {
        let query = KeyedQuery {
            keys: "SELECT rowid FROM project ORDER BY time_created, id",
            row: "SELECT * FROM project WHERE rowid = ?1",
            of: None,
        };
        self.visit_rows((RecordKind::Project, query), sink, &mut |row, sink| {
            let Some(id) = row.nonempty_text("id") else {
                return Ok(sink(missing_id_record(RecordKind::Project)));
            };
            let (mut body, notes) = row_json::project_json(row);
            for note in notes {
                hand!(sink(SourceRecord::Note(format!("project {id}: {note}"))));
            }
            let further = self.project_directories(&id);
            if !further.is_empty() {
                body.insert("directories".to_owned(), Value::from(further));
            }
            Ok(sink(SourceRecord::Project { id, body: Value::Object(body) }))
        })
    }

    /// The further directories of a project, in today's database.
    fn project_directories(&self, project: &str) -> Vec<String> {
        if !self.has_table("project_directory") {
            return Vec::new();
        }
        let list = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.conn.prepare_cached(
                "SELECT directory FROM project_directory WHERE project_id = ?1
                 ORDER BY time_created, directory LIMIT 1000",
            )?;
            let rows = statement.query_map([project], |row| row.get(0))?;
            rows.collect()
        };
        list().unwrap_or_default()
    }

    fn read_approvals(&self, sink: RecordSink<'_>) -> DatabaseFlow {
        if !self.has_table("permission") {
            return Ok(ControlFlow::Continue(()));
        }
        let today = self.has_column("permission", "resource");
        let query = KeyedQuery {
            keys: "SELECT rowid FROM permission ORDER BY project_id, time_created",
            row: "SELECT * FROM permission WHERE rowid = ?1",
            of: None,
        };
        self.visit_rows((RecordKind::Permission, query), sink, &mut |row, sink| {
            let project = row.text("project_id").unwrap_or_default();
            if today {
                let id = row.text("id").unwrap_or_default();
                return Ok(sink(SourceRecord::Approval {
                    id,
                    project,
                    body: row_json::approval_json(row),
                }));
            }
            match row.json("data") {
                Ok(rules) => emit_rules(&project, rules.unwrap_or_default(), sink),
                Err(reason) => Ok(sink(SourceRecord::Unreadable {
                    kind: RecordKind::Permission,
                    id: project,
                    reason,
                })),
            }
        })
    }

    /// Every session by row number, parents first, otherwise by age.
    fn list_sessions(&self) -> rusqlite::Result<Vec<OrderedSession<i64>>> {
        // One character more than an id may have tells one that is too long.
        let mut statement = self.conn.prepare(match self.has_column("session", "parent_id") {
            true => {
                "SELECT rowid AS num, substr(id, 1, 513) AS id, substr(parent_id, 1, 513) AS parent_id
                 FROM session ORDER BY time_created, session.id"
            }
            false => {
                "SELECT rowid AS num, substr(id, 1, 513) AS id
                 FROM session ORDER BY time_created, session.id"
            }
        })?;
        let mut rows = statement.query([])?;
        let mut list = Vec::new();
        while let Some(row) = rows.next()? {
            let row = ForeignRow::from_sqlite(row)?;
            let key = row.integer("num").unwrap_or_default();
            let (id, parent) = (row.text("id").unwrap_or_default(), row.nonempty_text("parent_id"));
            list.push(OrderedSession { id, parent, key });
        }
        Ok(parents_first(list))
    }

    fn read_session(&self, ranked: &OrderedSession<i64>, sink: RecordSink<'_>) -> DatabaseFlow {
        if ranked.id.is_empty() {
            return Ok(sink(missing_id_record(RecordKind::Session)));
        }
        if ranked.id.len() > MAX_ID {
            return Ok(sink(unreadable(RecordKind::Session, &ranked.id, "the id is too long")));
        }
        match self.select_row("SELECT * FROM session WHERE rowid = ?1", ranked.key) {
            Ok(row) => {
                let (body, notes) = row_json::session_json(&row);
                for note in notes {
                    hand!(sink(SourceRecord::Note(format!("session {}: {note}", ranked.id))));
                }
                let project = row.text("project_id").unwrap_or_default();
                hand!(sink(SourceRecord::Session { id: ranked.id.clone(), project, body }));
            }
            Err(error) => {
                hand!(sink(unreadable(RecordKind::Session, &ranked.id, &row_error_reason(&error))));
            }
        }
        hand!(self.read_messages(&ranked.id, sink)?);
        hand!(self.read_session_extras(&ranked.id, sink)?);
        Ok(sink(SourceRecord::EndOfSession))
    }

    fn read_messages(&self, session: &str, sink: RecordSink<'_>) -> DatabaseFlow {
        let query = KeyedQuery {
            keys: "SELECT rowid FROM message WHERE session_id = ?1 ORDER BY time_created, id",
            row: "SELECT * FROM message WHERE rowid = ?1",
            of: Some(session),
        };
        self.visit_rows((RecordKind::Message, query), sink, &mut |row, sink| {
            let Some(id) = row.nonempty_text("id") else {
                return Ok(sink(missing_id_record(RecordKind::Message)));
            };
            hand!(sink(message_record(&id, row)));
            self.read_parts(&id, row, sink)
        })
    }

    fn read_parts(&self, message: &str, row: &ForeignRow, sink: RecordSink<'_>) -> DatabaseFlow {
        let near = row.integer("time_created").unwrap_or_default();
        let keys = match self.part_keys(message, near) {
            Ok(keys) => keys,
            Err(error) => {
                return Ok(sink(unreadable(RecordKind::Part, message, &row_error_reason(&error))));
            }
        };
        for key in keys {
            hand!(sink(match self.select_row("SELECT * FROM part WHERE rowid = ?1", key) {
                Ok(row) => part_record(&row.text("id").unwrap_or_default(), message, &row),
                Err(error) => {
                    unreadable(
                        RecordKind::Part,
                        &format!("{message} row {key}"),
                        &row_error_reason(&error),
                    )
                }
            }));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The rows of a message's parts, in the order the parts were made.
    fn part_keys(&self, message: &str, near: i64) -> rusqlite::Result<Vec<i64>> {
        let mut statement =
            self.conn.prepare_cached(match self.has_column("part", "time_created") {
                true => {
                    "SELECT rowid AS num, substr(id, 1, 513) AS id, time_created
                     FROM part WHERE message_id = ?1"
                }
                false => {
                    "SELECT rowid AS num, substr(id, 1, 513) AS id FROM part WHERE message_id = ?1"
                }
            })?;
        let mut rows = statement.query([message])?;
        let mut list = Vec::new();
        while let Some(row) = rows.next()? {
            let row = ForeignRow::from_sqlite(row)?;
            let id = row.text("id").unwrap_or_default();
            let place = foreign_id::part_sort_key(&id, near, row.integer("time_created"));
            list.push((place, row.integer("num").unwrap_or_default()));
        }
        list.sort();
        Ok(list.into_iter().map(|(_, key)| key).collect())
    }

    /// To-dos, share and diff of a session.
    fn read_session_extras(&self, session: &str, sink: RecordSink<'_>) -> DatabaseFlow {
        if self.has_table("todo") {
            let mut list = Vec::new();
            let query = KeyedQuery {
                keys: "SELECT rowid FROM todo WHERE session_id = ?1 ORDER BY position",
                row: "SELECT * FROM todo WHERE rowid = ?1",
                of: Some(session),
            };
            let mut bytes = 0;
            hand!(self.visit_rows((RecordKind::Todo, query), sink, &mut |row, sink| {
                bytes += row.text("content").map_or(0, |text| text.len());
                if list.len() >= MAX_TODOS || bytes > MAX_BYTES {
                    return Ok(sink(unreadable(RecordKind::Todo, session, "the list is too long")));
                }
                list.push(row_json::todo_json(row));
                Ok(ControlFlow::Continue(()))
            })?);
            if !list.is_empty() {
                let session = session.to_owned();
                hand!(sink(SourceRecord::Todos { session, body: Value::Array(list) }));
            }
        }
        if self.has_table("session_share") {
            let query = KeyedQuery {
                keys: "SELECT rowid FROM session_share WHERE session_id = ?1",
                row: "SELECT * FROM session_share WHERE rowid = ?1",
                of: Some(session),
            };
            hand!(self.visit_rows((RecordKind::Share, query), sink, &mut |row, sink| {
                Ok(sink(SourceRecord::Share {
                    session: session.to_owned(),
                    body: row_json::share_json(row),
                }))
            })?);
        }
        let diff = self.diffs.join(format!("{session}.json"));
        if is_file_name(session) && json_files::is_there(&diff) {
            let entry = json_files::JsonDirEntry::Json { name: session.to_owned(), path: diff };
            hand!(sink(read_diff_file(&entry)));
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl SourceReader for OpenCodeDatabase {
    fn describe(&self) -> String {
        let age = if self.has_column("session", "cost") { "today's" } else { "1.2's" };
        format!("OpenCode database {} ({age} tables)", self.path.display())
    }

    fn totals(&self) -> KindTotals {
        let mut totals = KindTotals::new();
        totals.insert(RecordKind::Project, self.count("SELECT count(*) FROM project"));
        totals.insert(RecordKind::Session, self.session_count());
        totals.insert(RecordKind::Message, self.count("SELECT count(*) FROM message"));
        totals.insert(RecordKind::Part, self.count("SELECT count(*) FROM part"));
        if self.has_table("todo") {
            totals.insert(RecordKind::Todo, self.count("SELECT count(*) FROM todo"));
        }
        if self.has_table("session_share") {
            totals.insert(RecordKind::Share, self.count("SELECT count(*) FROM session_share"));
        }
        totals
    }

    fn read(&mut self, sink: RecordSink<'_>) -> DatabaseFlow {
        hand!(self.note_unknown_columns(sink)?);
        hand!(self.read_projects(sink)?);
        hand!(self.read_approvals(sink)?);
        let sessions = self.list_sessions().map_err(|error| to_source_error(&self.path, &error))?;
        for session in &sessions {
            hand!(self.read_session(session, sink)?);
        }
        hand!(self.read_orphans(sink)?);
        hand!(self.read_orphan_diffs(&sessions, sink)?);
        self.read_v2_rows(sink)
    }
}

/// A file of the directory `session_diff` as a record.
pub(super) fn read_diff_file(entry: &json_files::JsonDirEntry) -> SourceRecord {
    let kind = RecordKind::Diff;
    match entry {
        json_files::JsonDirEntry::Other { name } => SourceRecord::Unreadable {
            kind,
            id: name.clone(),
            reason: "not a .json file".to_owned(),
        },
        json_files::JsonDirEntry::Json { name, path } => match json_files::read_json(path) {
            Ok(body) => SourceRecord::Diff { session: name.clone(), body },
            Err(reason) => SourceRecord::Unreadable { kind, id: name.clone(), reason },
        },
    }
}

/// The rules of a project one by one.
pub(super) fn emit_rules(project: &str, rules: Value, sink: RecordSink<'_>) -> DatabaseFlow {
    let Value::Array(rules) = rules else {
        let reason = "the rules are not a list".to_owned();
        return Ok(sink(SourceRecord::Unreadable {
            kind: RecordKind::Permission,
            id: project.to_owned(),
            reason,
        }));
    };
    for (index, body) in rules.into_iter().enumerate() {
        let id = format!("{project}#{index}");
        hand!(sink(SourceRecord::Approval { id, project: project.to_owned(), body }));
    }
    Ok(ControlFlow::Continue(()))
}

/// True if a foreign id can be the name of a file in one directory.
fn is_file_name(id: &str) -> bool {
    !id.contains(['/', '\\', '\0']) && id != ".."
}

fn message_record(id: &str, row: &ForeignRow) -> SourceRecord {
    let created = row.integer("time_created");
    let session = row.text("session_id").unwrap_or_default();
    match row.json("data") {
        Ok(Some(body)) => SourceRecord::Message { id: id.to_owned(), session, created, body },
        Ok(None) => unreadable(RecordKind::Message, id, "data is missing"),
        Err(reason) => unreadable(RecordKind::Message, id, &reason),
    }
}

fn part_record(id: &str, message: &str, row: &ForeignRow) -> SourceRecord {
    match row.json("data") {
        Ok(Some(body)) => {
            SourceRecord::Part { id: id.to_owned(), message: message.to_owned(), body }
        }
        Ok(None) => unreadable(RecordKind::Part, id, "data is missing"),
        Err(reason) => unreadable(RecordKind::Part, id, &reason),
    }
}

fn unreadable(kind: RecordKind, id: &str, reason: &str) -> SourceRecord {
    SourceRecord::Unreadable { kind, id: id.to_owned(), reason: reason.to_owned() }
}

fn missing_id_record(kind: RecordKind) -> SourceRecord {
    unreadable(kind, "(none)", "the row has no id")
}

/// Why a row cannot be read, in words.
fn row_error_reason(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::TooBig) => too_large_reason(),
        _ => format!("the database is damaged here: {error}"),
    }
}

fn to_source_error(path: &Path, error: &rusqlite::Error) -> SourceError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => SourceError::NotADatabase { path },
        _ => SourceError::Corrupt { path, reason: error.to_string() },
    }
}
