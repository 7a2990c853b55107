//! OpenCode's SQLite database, of version 1.2.10 and of today.
//!
//! Columns are found by name, so that older and newer tables can be read alike; what every version has
//! must be there. Messages come in OpenCode's order, `(time_created, id)`; parts in the order their ids
//! were made, see [`crate::identity::place`].

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

use super::copy::PrivateCopy;
use super::files;
use super::limit::{MAX_BYTES, MAX_ID, too_large};
use super::record::{Ranked, Reader, Record, Sink, Totals, hand, parents_first};
use super::row::Row;
use super::{Options, SourceError};
use crate::identity;
use crate::kind::Kind;

mod confined;
mod schema;
mod shape;
mod stray;

/// Entries of a to-do list that are imported.
const MAX_TODOS: usize = 10_000;

/// Which rows are read, and how one of them is.
#[derive(Clone, Copy)]
struct Query<'a> {
    /// Selects the numbers of the rows, in order.
    keys: &'static str,
    /// Selects a row by its number.
    row: &'static str,
    /// What the rows belong to, where `keys` asks for that.
    of: Option<&'a str>,
}

type Flow = Result<ControlFlow<()>, SourceError>;

/// A private copy of an OpenCode database, open for reading.
pub(super) struct Database {
    conn: Connection,
    /// Keeps the copy until the connection is closed.
    _copy: PrivateCopy,
    /// The original, as people named it.
    path: PathBuf,
    tables: schema::Tables,
    /// Where session diffs lie beside the database.
    diffs: PathBuf,
}

impl Database {
    /// Copies the database at `path` and opens the copy.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self, SourceError> {
        let copy = PrivateCopy::of(path, options)?;
        let damaged = |error: rusqlite::Error| failure(path, &error);
        let conn = confined::open(&copy.path()).map_err(damaged)?;
        let tables = schema::tables(&conn).map_err(damaged)?;
        if tables.is_empty() {
            return Err(SourceError::Empty { path: path.to_path_buf() });
        }
        let missing = schema::missing(&tables);
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

    fn has(&self, table: &str) -> bool {
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
    fn rows(
        &self,
        (kind, query): (Kind, Query<'_>),
        sink: Sink<'_>,
        visit: &mut dyn FnMut(&Row, Sink<'_>) -> Flow,
    ) -> Flow {
        let keys = match self.keys(&query) {
            Ok(keys) => keys,
            Err(error) => {
                let of = query.of.unwrap_or(kind.name());
                return Ok(sink(bad(kind, of, &reason_of(&error))));
            }
        };
        for key in keys {
            hand!(match self.row(query.row, key) {
                Ok(row) => visit(&row, sink)?,
                Err(error) => {
                    let id = format!("{} row {key}", query.of.unwrap_or(kind.name()));
                    sink(bad(kind, &id, &reason_of(&error)))
                }
            });
        }
        Ok(ControlFlow::Continue(()))
    }

    fn keys(&self, query: &Query<'_>) -> rusqlite::Result<Vec<i64>> {
        let mut statement = self.conn.prepare_cached(query.keys)?;
        match query.of {
            None => statement.query_map([], |row| row.get(0))?.collect(),
            Some(of) => statement.query_map([of], |row| row.get(0))?.collect(),
        }
    }

    fn row(&self, sql: &'static str, key: i64) -> rusqlite::Result<Row> {
        self.conn.prepare_cached(sql)?.query_row([key], Row::of)
    }

    fn projects(&self, sink: Sink<'_>) -> Flow {
        let query = Query {
            keys: "SELECT rowid FROM project ORDER BY time_created, id",
            row: "SELECT * FROM project WHERE rowid = ?1",
            of: None,
        };
        self.rows((Kind::Project, query), sink, &mut |row, sink| {
            let Some(id) = row.filled("id") else {
                return Ok(sink(no_id(Kind::Project)));
            };
            let (mut body, notes) = shape::project(row);
            for note in notes {
                hand!(sink(Record::Note(format!("project {id}: {note}"))));
            }
            let further = self.directories(&id);
            if !further.is_empty() {
                body.insert("directories".to_owned(), Value::from(further));
            }
            Ok(sink(Record::Project { id, body: Value::Object(body) }))
        })
    }

    /// The further directories of a project, in today's database.
    fn directories(&self, project: &str) -> Vec<String> {
        if !self.has("project_directory") {
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

    fn approvals(&self, sink: Sink<'_>) -> Flow {
        if !self.has("permission") {
            return Ok(ControlFlow::Continue(()));
        }
        let today = self.has_column("permission", "resource");
        let query = Query {
            keys: "SELECT rowid FROM permission ORDER BY project_id, time_created",
            row: "SELECT * FROM permission WHERE rowid = ?1",
            of: None,
        };
        self.rows((Kind::Permission, query), sink, &mut |row, sink| {
            let project = row.text("project_id").unwrap_or_default();
            if today {
                let id = row.text("id").unwrap_or_default();
                return Ok(sink(Record::Approval { id, project, body: shape::saved_rule(row) }));
            }
            match row.json("data") {
                Ok(rules) => rules_of(&project, rules.unwrap_or_default(), sink),
                Err(reason) => {
                    Ok(sink(Record::Bad { kind: Kind::Permission, id: project, reason }))
                }
            }
        })
    }

    /// Every session by row number, parents first, otherwise by age.
    fn ranked(&self) -> rusqlite::Result<Vec<Ranked<i64>>> {
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
            let row = Row::of(row)?;
            let key = row.integer("num").unwrap_or_default();
            let (id, parent) = (row.text("id").unwrap_or_default(), row.filled("parent_id"));
            list.push(Ranked { id, parent, key });
        }
        Ok(parents_first(list))
    }

    fn session(&self, ranked: &Ranked<i64>, sink: Sink<'_>) -> Flow {
        if ranked.id.is_empty() {
            return Ok(sink(no_id(Kind::Session)));
        }
        if ranked.id.len() > MAX_ID {
            return Ok(sink(bad(Kind::Session, &ranked.id, "the id is too long")));
        }
        match self.row("SELECT * FROM session WHERE rowid = ?1", ranked.key) {
            Ok(row) => {
                let (body, notes) = shape::session(&row);
                for note in notes {
                    hand!(sink(Record::Note(format!("session {}: {note}", ranked.id))));
                }
                let project = row.text("project_id").unwrap_or_default();
                hand!(sink(Record::Session { id: ranked.id.clone(), project, body }));
            }
            Err(error) => {
                hand!(sink(bad(Kind::Session, &ranked.id, &reason_of(&error))));
            }
        }
        hand!(self.messages(&ranked.id, sink)?);
        hand!(self.belongings(&ranked.id, sink)?);
        Ok(sink(Record::End))
    }

    fn messages(&self, session: &str, sink: Sink<'_>) -> Flow {
        let query = Query {
            keys: "SELECT rowid FROM message WHERE session_id = ?1 ORDER BY time_created, id",
            row: "SELECT * FROM message WHERE rowid = ?1",
            of: Some(session),
        };
        self.rows((Kind::Message, query), sink, &mut |row, sink| {
            let Some(id) = row.filled("id") else {
                return Ok(sink(no_id(Kind::Message)));
            };
            hand!(sink(message(&id, row)));
            self.parts(&id, row, sink)
        })
    }

    fn parts(&self, message: &str, row: &Row, sink: Sink<'_>) -> Flow {
        let near = row.integer("time_created").unwrap_or_default();
        let keys = match self.part_keys(message, near) {
            Ok(keys) => keys,
            Err(error) => return Ok(sink(bad(Kind::Part, message, &reason_of(&error)))),
        };
        for key in keys {
            hand!(sink(match self.row("SELECT * FROM part WHERE rowid = ?1", key) {
                Ok(row) => part(&row.text("id").unwrap_or_default(), message, &row),
                Err(error) => {
                    bad(Kind::Part, &format!("{message} row {key}"), &reason_of(&error))
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
            let row = Row::of(row)?;
            let id = row.text("id").unwrap_or_default();
            let place = identity::place(&id, near, row.integer("time_created"));
            list.push((place, row.integer("num").unwrap_or_default()));
        }
        list.sort();
        Ok(list.into_iter().map(|(_, key)| key).collect())
    }

    /// To-dos, share and diff of a session.
    fn belongings(&self, session: &str, sink: Sink<'_>) -> Flow {
        if self.has("todo") {
            let mut list = Vec::new();
            let query = Query {
                keys: "SELECT rowid FROM todo WHERE session_id = ?1 ORDER BY position",
                row: "SELECT * FROM todo WHERE rowid = ?1",
                of: Some(session),
            };
            let mut bytes = 0;
            hand!(self.rows((Kind::Todo, query), sink, &mut |row, sink| {
                bytes += row.text("content").map_or(0, |text| text.len());
                if list.len() >= MAX_TODOS || bytes > MAX_BYTES {
                    return Ok(sink(bad(Kind::Todo, session, "the list is too long")));
                }
                list.push(shape::todo(row));
                Ok(ControlFlow::Continue(()))
            })?);
            if !list.is_empty() {
                let session = session.to_owned();
                hand!(sink(Record::Todos { session, body: Value::Array(list) }));
            }
        }
        if self.has("session_share") {
            let query = Query {
                keys: "SELECT rowid FROM session_share WHERE session_id = ?1",
                row: "SELECT * FROM session_share WHERE rowid = ?1",
                of: Some(session),
            };
            hand!(self.rows((Kind::Share, query), sink, &mut |row, sink| {
                Ok(sink(Record::Share { session: session.to_owned(), body: shape::share(row) }))
            })?);
        }
        let diff = self.diffs.join(format!("{session}.json"));
        if is_file_name(session) && files::is_there(&diff) {
            let entry = files::Entry::Json { name: session.to_owned(), path: diff };
            hand!(sink(diff_file(&entry)));
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Reader for Database {
    fn describe(&self) -> String {
        let age = if self.has_column("session", "cost") { "today's" } else { "1.2's" };
        format!("OpenCode database {} ({age} tables)", self.path.display())
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::new();
        totals.insert(Kind::Project, self.count("SELECT count(*) FROM project"));
        totals.insert(Kind::Session, self.session_count());
        totals.insert(Kind::Message, self.count("SELECT count(*) FROM message"));
        totals.insert(Kind::Part, self.count("SELECT count(*) FROM part"));
        if self.has("todo") {
            totals.insert(Kind::Todo, self.count("SELECT count(*) FROM todo"));
        }
        if self.has("session_share") {
            totals.insert(Kind::Share, self.count("SELECT count(*) FROM session_share"));
        }
        totals
    }

    fn read(&mut self, sink: Sink<'_>) -> Flow {
        hand!(self.unknown_columns(sink)?);
        hand!(self.projects(sink)?);
        hand!(self.approvals(sink)?);
        let sessions = self.ranked().map_err(|error| failure(&self.path, &error))?;
        for session in &sessions {
            hand!(self.session(session, sink)?);
        }
        hand!(self.strays(sink)?);
        hand!(self.stray_diffs(&sessions, sink)?);
        self.second_runner(sink)
    }
}

/// A file of the directory `session_diff` as a record.
pub(super) fn diff_file(entry: &files::Entry) -> Record {
    let kind = Kind::Diff;
    match entry {
        files::Entry::Other { name } => {
            Record::Bad { kind, id: name.clone(), reason: "not a .json file".to_owned() }
        }
        files::Entry::Json { name, path } => match files::read_json(path) {
            Ok(body) => Record::Diff { session: name.clone(), body },
            Err(reason) => Record::Bad { kind, id: name.clone(), reason },
        },
    }
}

/// The rules of a project one by one.
pub(super) fn rules_of(project: &str, rules: Value, sink: Sink<'_>) -> Flow {
    let Value::Array(rules) = rules else {
        let reason = "the rules are not a list".to_owned();
        return Ok(sink(Record::Bad { kind: Kind::Permission, id: project.to_owned(), reason }));
    };
    for (index, body) in rules.into_iter().enumerate() {
        let id = format!("{project}#{index}");
        hand!(sink(Record::Approval { id, project: project.to_owned(), body }));
    }
    Ok(ControlFlow::Continue(()))
}

/// True if a foreign id can be the name of a file in one directory.
fn is_file_name(id: &str) -> bool {
    !id.contains(['/', '\\', '\0']) && id != ".."
}

fn message(id: &str, row: &Row) -> Record {
    let created = row.integer("time_created");
    let session = row.text("session_id").unwrap_or_default();
    match row.json("data") {
        Ok(Some(body)) => Record::Message { id: id.to_owned(), session, created, body },
        Ok(None) => bad(Kind::Message, id, "data is missing"),
        Err(reason) => bad(Kind::Message, id, &reason),
    }
}

fn part(id: &str, message: &str, row: &Row) -> Record {
    match row.json("data") {
        Ok(Some(body)) => Record::Part { id: id.to_owned(), message: message.to_owned(), body },
        Ok(None) => bad(Kind::Part, id, "data is missing"),
        Err(reason) => bad(Kind::Part, id, &reason),
    }
}

fn bad(kind: Kind, id: &str, reason: &str) -> Record {
    Record::Bad { kind, id: id.to_owned(), reason: reason.to_owned() }
}

fn no_id(kind: Kind) -> Record {
    bad(kind, "(none)", "the row has no id")
}

/// Why a row cannot be read, in words.
fn reason_of(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::TooBig) => too_large(),
        _ => format!("the database is damaged here: {error}"),
    }
}

fn failure(path: &Path, error: &rusqlite::Error) -> SourceError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => SourceError::NotADatabase { path },
        _ => SourceError::Corrupt { path, reason: error.to_string() },
    }
}
