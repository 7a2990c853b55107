//! Projections compared with what the log says they should be, without changing either.
//!
//! The log is replayed into a scratch database that has the projection tables and nothing else; the
//! store's file is attached to it for reading. Both sides are of one moment.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::connection;
use crate::error::Result;
use crate::projection;
use crate::replay::{self, ReplayLimit, ReplayPosition};
use crate::schema::{MIGRATIONS, PROJECTION_TABLES};
use crate::store::Store;

/// The most rows reported for one table.
const MAX_REPORTED: usize = 50;

/// A row that is not what the log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectionMismatch {
    /// The table.
    pub table: &'static str,
    /// The row as it is; absent if it is missing.
    pub stored: Option<String>,
    /// The row as the log has it; absent if there should be none.
    pub rebuilt: Option<String>,
}

impl std::fmt::Display for ProjectionMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let none = "nothing";
        let stored = self.stored.as_deref().unwrap_or(none);
        let rebuilt = self.rebuilt.as_deref().unwrap_or(none);
        write!(f, "{}: has {stored}, should have {rebuilt}", self.table)
    }
}

/// How one table is compared.
struct TableComparison {
    table: &'static str,
    /// How many columns name a row.
    key: usize,
    /// Rows of the file that a rebuild does not give, by key.
    stored: &'static str,
    /// Rows a rebuild gives that are not in the file, by key.
    rebuilt: &'static str,
}

/// The rows of deleted sessions are on their way out and not compared.
macro_rules! comparison {
    ($table:literal, $key:literal, $where:literal) => {
        TableComparison {
            table: $table,
            key: $key,
            stored: concat!(
                "SELECT * FROM log.",
                $table,
                " AS t WHERE ",
                $where,
                " EXCEPT SELECT * FROM main.",
                $table,
                " ORDER BY 1, 2"
            ),
            rebuilt: concat!(
                "SELECT * FROM main.",
                $table,
                " EXCEPT SELECT * FROM log.",
                $table,
                " AS t WHERE ",
                $where,
                " ORDER BY 1, 2"
            ),
        }
    };
    ($table:literal, session) => {
        comparison!(
            $table,
            1,
            "t.session NOT IN (SELECT session FROM log.stream WHERE deleted <> 0)"
        )
    };
}

const COMPARISONS: &[TableComparison] = &[
    comparison!("head", session),
    comparison!("taken", session),
    comparison!("operation", session),
    comparison!("change", session),
    comparison!("diff", session),
    comparison!("share", session),
    comparison!("input", session),
    comparison!("approval", 3, "1"),
    comparison!("request", session),
    comparison!("turn", session),
    comparison!("todo", session),
    comparison!("part", session),
    comparison!("message", session),
    comparison!("session", 1, "t.num NOT IN (SELECT session FROM log.stream WHERE deleted <> 0)"),
    comparison!("project_alias", 3, "1"),
    comparison!("project", 1, "1"),
];
const _: () = assert!(COMPARISONS.len() == PROJECTION_TABLES.len());

/// See [`DatabaseMaintenance::verify_projections`](crate::DatabaseMaintenance::verify_projections).
pub(crate) fn verify_projections(store: &Store) -> Result<Vec<ProjectionMismatch>> {
    let path = store.layout().database();
    compare_projections(&path).map_err(|e| e.with_file(&path))
}

/// Replays the log of the file at `path`, to see whether it can be.
pub(crate) fn dry_run_replay(path: &Path) -> Result<u64> {
    with_replayed_log(path, |_, events| Ok(events))
}

/// Compares the projections of the file at `path` with a rebuild.
pub(crate) fn compare_projections(path: &Path) -> Result<Vec<ProjectionMismatch>> {
    with_replayed_log(path, |conn, _| {
        let mut found = Vec::new();
        for comparison in COMPARISONS {
            compare_table(conn, comparison, &mut found)?;
        }
        Ok(found)
    })
}

/// Replays the log into a scratch database and shows both to `look`.
fn with_replayed_log<T>(
    path: &Path,
    look: impl FnOnce(&Connection, u64) -> Result<T>,
) -> Result<T> {
    let conn = connection::open_scratch(path)?;
    for step in MIGRATIONS {
        conn.execute_batch(step.sql)?;
    }
    // Out of the way: names that are not found here are found in the attached file.
    conn.execute_batch("DROP TABLE main.event; DROP TABLE main.stream; PRAGMA foreign_keys = ON")?;
    conn.execute_batch("BEGIN")?;
    let done =
        replay::replay_log(&conn, ReplayPosition::default(), ReplayLimit::NONE, &mut |c, e| {
            projection::apply_event(c, e)
        })?;
    let seen = look(&conn, done.events)?;
    conn.execute_batch("ROLLBACK")?;
    Ok(seen)
}

fn compare_table(
    conn: &Connection,
    with: &TableComparison,
    found: &mut Vec<ProjectionMismatch>,
) -> Result<()> {
    let mut stored = load_rows(conn, with.stored, with.key)?;
    let mut rebuilt = load_rows(conn, with.rebuilt, with.key)?;
    let mut keys: Vec<String> = stored.iter().chain(&rebuilt).map(|(key, _)| key.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    let take = |rows: &mut Vec<(String, String)>, key: &str| {
        let at = rows.iter().position(|(found, _)| found == key)?;
        Some(rows.swap_remove(at).1)
    };
    for key in keys.into_iter().take(MAX_REPORTED) {
        let (stored, rebuilt) = (take(&mut stored, &key), take(&mut rebuilt, &key));
        found.push(ProjectionMismatch { table: with.table, stored, rebuilt });
    }
    Ok(())
}

/// The first rows of a comparison: what names them, and all of them.
fn load_rows(conn: &Connection, sql: &str, key: usize) -> Result<Vec<(String, String)>> {
    let mut statement = conn.prepare(sql)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    let mut shown = Vec::new();
    while let Some(row) = rows.next()? {
        shown.push((format_columns(row, &names[..key])?, format_columns(row, &names)?));
        if shown.len() > MAX_REPORTED {
            break;
        }
    }
    Ok(shown)
}

fn format_columns(row: &Row<'_>, names: &[String]) -> Result<String> {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        let value = match row.get_ref(index)? {
            ValueRef::Null => "-".to_owned(),
            ValueRef::Integer(n) => n.to_string(),
            ValueRef::Real(n) => n.to_string(),
            ValueRef::Text(t) => String::from_utf8_lossy(t).chars().take(60).collect(),
            ValueRef::Blob(b) => format!("{} bytes", b.len()),
        };
        if index > 0 {
            text.push(' ');
        }
        text.push_str(name);
        text.push('=');
        text.push_str(&value);
    }
    Ok(text)
}
