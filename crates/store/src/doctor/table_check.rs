//! The database as SQLite sees it, and the tables that index the log.

use super::{CheckContext, DiagnosisBuilder, display_path, remedy};

use turnstone_core::call_context::OwnerId;

use crate::connection;
use crate::error::Result;
use crate::lease_owner::is_alive;
use crate::projection_check;
use crate::rebuild;
use crate::schema::MIGRATIONS;

/// SQLite's own check of pages, rows and indexes.
pub(super) fn check_integrity(
    exam: &CheckContext<'_>,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    let file = display_path(&exam.layout.database());
    let mut statement = exam.conn.prepare("PRAGMA integrity_check(20)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let verdict: String = row.get(0)?;
        if verdict != "ok" {
            report.error(verdict, file.clone(), remedy::SALVAGE);
        }
    }
    Ok(())
}

/// Returns true if this version knows what is in the file.
pub(super) fn check_version(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) -> bool {
    report.current_check = "version";
    let file = display_path(&exam.layout.database());
    let newest = MIGRATIONS.last().map_or(0, |m| m.version);
    match report.diagnosis.version {
        Some(0) => {
            report.note("version", "the database is empty".to_owned(), file, remedy::OPEN);
            false
        }
        Some(version) if version > newest => {
            let what = format!("written by a newer version (schema {version}, known {newest})");
            report.warning(what, file, "update turnstone; until then the store is read-only");
            false
        }
        Some(version) if version < newest => {
            let what = format!("written by an older version (schema {version}, known {newest})");
            report.note("version", what, file, remedy::OPEN);
            false
        }
        _ => true,
    }
}

/// The tables and indexes are those of this version.
pub(super) fn check_schema(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) -> Result<()> {
    let conn = connection::open_scratch(&exam.layout.database())?;
    for step in MIGRATIONS {
        conn.execute_batch(step.sql)?;
    }
    let mut statement = conn.prepare(
        "SELECT coalesce(a.name, b.name), a.sql IS NULL, b.sql IS NULL
         FROM (SELECT * FROM main.sqlite_schema WHERE sql IS NOT NULL) a
         FULL JOIN (SELECT * FROM log.sqlite_schema WHERE sql IS NOT NULL) b USING (type, name)
         WHERE a.sql IS NOT b.sql",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let what = match (row.get(1)?, row.get(2)?) {
            (true, _) => "is not part of this version's schema",
            (_, true) => "is missing",
            _ => "is not defined as this version defines it",
        };
        let severity = if row.get(1)? { super::Severity::Warning } else { super::Severity::Error };
        report.add_finding(severity, what.to_owned(), row.get::<_, String>(0)?, remedy::SALVAGE);
    }
    Ok(())
}

/// What durability and size depend on.
pub(super) fn check_settings(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) -> Result<()> {
    let file = display_path(&exam.layout.database());
    let mode: String = exam.conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode != "wal" {
        let what = format!("the journal mode is {mode}; it becomes wal when the store is opened");
        report.note("settings", what, file.clone(), remedy::OPEN);
    }
    let vacuum: i64 = exam.conn.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
    if vacuum != 2 {
        let what = "free pages are never given back (auto_vacuum is not incremental)".to_owned();
        report.warning(what, file.clone(), remedy::SALVAGE);
    }
    let encoding: String = exam.conn.pragma_query_value(None, "encoding", |row| row.get(0))?;
    if encoding != "UTF-8" {
        report.error(format!("the encoding is {encoding}"), file, remedy::SALVAGE);
    }
    Ok(())
}

/// Statements that give a table and the number of a row in it that refers to nothing.
const DANGLING_IMAGE_QUERIES: &[&str] = &[
    "SELECT 'project', num FROM project LEFT JOIN event ON cursor = image WHERE payload IS NULL",
    "SELECT 'session', num FROM session LEFT JOIN event ON cursor = image WHERE payload IS NULL",
    "SELECT 'message', num FROM message LEFT JOIN event ON cursor = image WHERE payload IS NULL",
    "SELECT 'part', num FROM part LEFT JOIN event ON cursor = image WHERE payload IS NULL",
    "SELECT 'turn', num FROM turn LEFT JOIN event ON cursor = image WHERE payload IS NULL",
    "SELECT 'turn', num FROM turn LEFT JOIN event ON cursor = status
     WHERE payload IS NULL AND status IS NOT NULL",
    "SELECT 'todo', todo.session FROM todo LEFT JOIN event ON cursor = image WHERE payload IS NULL",
    "SELECT 'diff', diff.session FROM diff LEFT JOIN event ON cursor = image WHERE payload IS NULL",
    "SELECT 'share', share.session FROM share LEFT JOIN event ON cursor = image
     WHERE payload IS NULL",
    "SELECT 'request', num FROM request LEFT JOIN event ON cursor = asked WHERE payload IS NULL",
    "SELECT 'request', num FROM request LEFT JOIN event ON cursor = resolved
     WHERE payload IS NULL AND resolved IS NOT NULL",
    "SELECT 'approval', granted FROM approval LEFT JOIN event ON cursor = granted
     WHERE payload IS NULL",
    "SELECT 'session', num FROM session LEFT JOIN stream ON stream.session = num
     WHERE stream.id IS NOT session.id",
];

/// Foreign keys hold, and every row of a projection has the event it shows.
pub(super) fn check_references(
    exam: &CheckContext<'_>,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    let mut statement = exam.conn.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let table: String = row.get(0)?;
        let num = row.get::<_, Option<i64>>(1)?.map_or("?".to_owned(), |num| num.to_string());
        let parent: String = row.get(2)?;
        let what = format!("refers to a {parent} that does not exist");
        report.error(what, format!("{table} {num}"), remedy::REBUILD);
    }
    for sql in DANGLING_IMAGE_QUERIES {
        let mut statement = exam.conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (table, num): (String, i64) = (row.get(0)?, row.get(1)?);
            let what = "refers to an event that does not exist or says nothing".to_owned();
            report.error(what, format!("{table} {num}"), remedy::REBUILD);
        }
    }
    Ok(())
}

/// Turns that run although nobody runs them.
pub(super) fn check_turns(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) -> Result<()> {
    let mut statement = exam.conn.prepare(
        "SELECT turn.id, stream.id, stream.owner FROM turn
         JOIN stream ON stream.session = turn.session
         WHERE turn.ended IS NULL AND turn.state = 'running' AND stream.deleted = 0",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let owner = row.get::<_, Option<String>>(2)?.map(OwnerId::new);
        let alive = match &owner {
            Some(owner) => is_alive(exam.layout, owner, exam.now)?,
            None => false,
        };
        if !alive {
            let (turn, session): (String, String) = (row.get(0)?, row.get(1)?);
            let what = format!("turn {turn} runs, but its process has ended");
            report.warning(what, format!("session {session}"), remedy::OPEN);
        }
    }
    Ok(())
}

/// Readers of the log that have to start again.
pub(super) fn check_consumers(
    exam: &CheckContext<'_>,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    let mut statement = exam.conn.prepare(
        "SELECT name, resync, cursor > (SELECT coalesce(max(cursor), 0) FROM event)
         FROM consumer WHERE resync <> 0 OR cursor > (SELECT coalesce(max(cursor), 0) FROM event)",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let place = format!("consumer {}", row.get::<_, String>(0)?);
        if row.get(2)? {
            report.error("has read past the end of the log".to_owned(), place, remedy::SALVAGE);
        } else {
            let what = "fell behind or lost its position and starts again".to_owned();
            report.note("consumers", what, place, remedy::NONE);
        }
    }
    Ok(())
}

/// The projections are what the log says.
pub(super) fn check_projections(
    exam: &CheckContext<'_>,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    if rebuild::is_pending(exam.conn)? {
        let what = "a rebuild is under way or was cut off; the next open finishes it".to_owned();
        report.warning(what, display_path(&exam.layout.database()), remedy::OPEN);
        return Ok(());
    }
    for mismatch in projection_check::compare_projections(&exam.layout.database())? {
        let place = mismatch.table.to_owned();
        report.error(mismatch.to_string(), place, remedy::REBUILD);
    }
    Ok(())
}
