//! The tables of an OpenCode database, found by name.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

/// Tables with their columns.
pub(super) type Tables = BTreeMap<String, BTreeSet<String>>;

/// What every known version has.
const REQUIRED: &[(&str, &[&str])] = &[
    ("project", &["id", "worktree"]),
    ("session", &["id", "project_id", "title", "directory", "time_created", "time_updated"]),
    ("message", &["id", "session_id", "time_created", "data"]),
    ("part", &["id", "message_id", "data"]),
];

/// The tables and their columns.
pub(super) fn tables(conn: &Connection) -> rusqlite::Result<Tables> {
    let mut statement = conn.prepare(
        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut tables = Tables::new();
    for row in rows {
        let (table, column): (String, String) = row?;
        tables.entry(table).or_default().insert(column);
    }
    Ok(tables)
}

pub(super) fn missing(tables: &Tables) -> Vec<String> {
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
