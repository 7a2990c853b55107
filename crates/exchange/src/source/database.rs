//! OpenCode's SQLite database, of version 1.2.10 and of today.
//!
//! Columns are found by name, so that older and newer tables can be read alike; what every version has
//! must be there. Messages come in OpenCode's order, `(time_created, id)`; parts in the order their ids
//! were made, see [`crate::identity::place`].

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use super::copy::PrivateCopy;
use super::files;
use super::record::{Ranked, Reader, Record, Sink, Totals, hand, parents_first};
use super::row::Row;
use super::{Options, SourceError};
use crate::identity;
use crate::kind::Kind;

mod schema;
mod shape;
mod stray;

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
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = connect(&copy.path(), flags).map_err(damaged)?;
        conn.pragma_update(None, "trusted_schema", "OFF").map_err(damaged)?;
        conn.pragma_update(None, "cell_size_check", "ON").map_err(damaged)?;
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

    /// Hands the rows of a query to `visit`; a damaged page ends the query, not the import.
    fn rows(
        &self,
        kind: Kind,
        (sql, of): (&'static str, &str),
        sink: Sink<'_>,
        visit: &mut dyn FnMut(&Row, Sink<'_>) -> Flow,
    ) -> Flow {
        let mut query = || -> rusqlite::Result<Flow> {
            let mut statement = self.conn.prepare_cached(sql)?;
            let bound = statement.parameter_count();
            let mut rows = match bound {
                0 => statement.query([])?,
                _ => statement.query([of])?,
            };
            while let Some(row) = rows.next()? {
                match visit(&Row::of(row)?, sink) {
                    Ok(ControlFlow::Continue(())) => {}
                    other => return Ok(other),
                }
            }
            Ok(Ok(ControlFlow::Continue(())))
        };
        match query() {
            Ok(flow) => flow,
            Err(error) => {
                let reason = format!("the database is damaged here: {error}");
                let id = if of.is_empty() { kind.name().to_owned() } else { of.to_owned() };
                Ok(sink(Record::Bad { kind, id, reason }))
            }
        }
    }

    fn projects(&self, sink: Sink<'_>) -> Flow {
        let sql = ("SELECT * FROM project ORDER BY time_created, id", "");
        self.rows(Kind::Project, sql, sink, &mut |row, sink| {
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
                "SELECT directory FROM project_directory WHERE project_id = ?1 ORDER BY time_created, directory",
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
        let sql = ("SELECT * FROM permission ORDER BY project_id, time_created", "");
        self.rows(Kind::Permission, sql, sink, &mut |row, sink| {
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
        let mut statement =
            self.conn.prepare("SELECT rowid AS num, * FROM session ORDER BY time_created, id")?;
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
        let read = self.conn.prepare_cached("SELECT * FROM session WHERE rowid = ?1");
        let row = read.and_then(|mut statement| statement.query_row([ranked.key], Row::of));
        match row {
            Ok(row) => {
                let (body, notes) = shape::session(&row);
                for note in notes {
                    hand!(sink(Record::Note(format!("session {}: {note}", ranked.id))));
                }
                let project = row.text("project_id").unwrap_or_default();
                hand!(sink(Record::Session { id: ranked.id.clone(), project, body }));
            }
            Err(error) => {
                let reason = format!("the database is damaged here: {error}");
                let id = ranked.id.clone();
                hand!(sink(Record::Bad { kind: Kind::Session, id, reason }));
            }
        }
        hand!(self.messages(&ranked.id, sink)?);
        hand!(self.belongings(&ranked.id, sink)?);
        Ok(sink(Record::End))
    }

    fn messages(&self, session: &str, sink: Sink<'_>) -> Flow {
        let sql = "SELECT * FROM message WHERE session_id = ?1 ORDER BY time_created, id";
        self.rows(Kind::Message, (sql, session), sink, &mut |row, sink| {
            let Some(id) = row.filled("id") else {
                return Ok(sink(no_id(Kind::Message)));
            };
            hand!(sink(message(&id, row)));
            self.parts(&id, row, sink)
        })
    }

    fn parts(&self, message: &str, row: &Row, sink: Sink<'_>) -> Flow {
        let near = row.integer("time_created").unwrap_or_default();
        let mut parts = Vec::new();
        let sql = "SELECT * FROM part WHERE message_id = ?1";
        hand!(self.rows(Kind::Part, (sql, message), sink, &mut |row, _| {
            let id = row.text("id").unwrap_or_default();
            let place = identity::place(&id, near, row.integer("time_created"));
            parts.push((place, part(&id, message, row)));
            Ok(ControlFlow::Continue(()))
        })?);
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, part) in parts {
            hand!(sink(part));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// To-dos, share and diff of a session.
    fn belongings(&self, session: &str, sink: Sink<'_>) -> Flow {
        if self.has("todo") {
            let mut list = Vec::new();
            let sql = "SELECT * FROM todo WHERE session_id = ?1 ORDER BY position";
            hand!(self.rows(Kind::Todo, (sql, session), sink, &mut |row, _| {
                list.push(shape::todo(row));
                Ok(ControlFlow::Continue(()))
            })?);
            if !list.is_empty() {
                let session = session.to_owned();
                hand!(sink(Record::Todos { session, body: Value::Array(list) }));
            }
        }
        if self.has("session_share") {
            let sql = "SELECT * FROM session_share WHERE session_id = ?1";
            hand!(self.rows(Kind::Share, (sql, session), sink, &mut |row, sink| {
                Ok(sink(Record::Share { session: session.to_owned(), body: shape::share(row) }))
            })?);
        }
        let diff = self.diffs.join(format!("{session}.json"));
        if is_file_name(session) && diff.is_file() {
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

#[expect(clippy::disallowed_methods, reason = "a private copy of a foreign database, never ours")]
fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, flags)
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

fn failure(path: &Path, error: &rusqlite::Error) -> SourceError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => SourceError::NotADatabase { path },
        _ => SourceError::Corrupt { path, reason: error.to_string() },
    }
}
