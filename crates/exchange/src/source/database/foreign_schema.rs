//! The tables of an OpenCode database, found by name.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

/// Tables with their columns.
pub(super) type TableColumns = BTreeMap<String, BTreeSet<String>>;

/// What every known version has.
const REQUIRED: &[(&str, &[&str])] = &[
    ("project", &["id", "worktree"]),
    ("session", &["id", "project_id", "title", "directory", "time_created", "time_updated"]),
    ("message", &["id", "session_id", "time_created", "data"]),
    ("part", &["id", "message_id", "data"]),
];

/// The plain tables and their columns. A virtual table and one with generated columns computes what it
/// shows, so it is not a table of OpenCode's, whatever its name.
pub(super) fn list_tables(conn: &Connection) -> rusqlite::Result<TableColumns> {
    let mut names = conn.prepare(
        "SELECT name FROM sqlite_schema
         WHERE type = 'table' AND rootpage > 0 AND instr(upper(sql), 'VIRTUAL') = 0",
    )?;
    let names: Vec<String> =
        names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut columns = conn.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
    let mut tables = TableColumns::new();
    for table in names {
        let rows = columns.query_map([&table], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let found = rows.collect::<rusqlite::Result<Vec<(String, i64)>>>()?;
        if found.iter().all(|(_, hidden)| *hidden == 0) {
            tables.insert(table, found.into_iter().map(|(name, _)| name).collect());
        }
    }
    Ok(tables)
}

pub(super) fn missing_columns(tables: &TableColumns) -> Vec<String> {
    let mut missing = Vec::new();
    for (table, columns) in REQUIRED {
        match tables.get(*table) {
            None => missing.push(format!("table {table}")),
            Some(found) => missing.extend(
                columns.iter().filter(|c| !found.contains(**c)).map(|c| format!("{table}.{c}")),
            ),
        }
    }
    missing
}
