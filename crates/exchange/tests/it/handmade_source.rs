//! Hand-made sources: files and OpenCode databases.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};
use turnstone_exchange::{Options, PlannedImport, SourceError};

use crate::case::{ImportFixture, TestResult};

pub(crate) const PROJECT: &str = "39a93880b0bb47938bba96c764a073c0740b06a8";

impl ImportFixture {
    pub(crate) fn expect_source_error(&self, source: &Path) -> SourceError {
        match PlannedImport::open(source, &Options::default()) {
            Ok(_) => panic!("{} was taken", source.display()),
            Err(error) => error,
        }
    }

    /// Writes JSON into a file of this case.
    pub(crate) fn write(&self, name: &str, value: &Value) -> TestResult<PathBuf> {
        self.write_text(name, &value.to_string())
    }

    pub(crate) fn write_text(&self, name: &str, text: &str) -> TestResult<PathBuf> {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        fs_err::write(&path, text)?;
        Ok(path)
    }
}

#[expect(clippy::disallowed_methods, reason = "hand-made foreign databases, never ours")]
pub(crate) fn connect(path: &Path) -> TestResult<Connection> {
    Ok(Connection::open(path)?)
}

/// The tables of OpenCode's first SQLite versions (1.2).
pub(crate) const FIRST_SCHEMA: &str = include_str!("data/opencode-schema-1.2.sql");
/// The tables of today's OpenCode (1.18).
pub(crate) const TODAY_SCHEMA: &str = include_str!("data/opencode-schema-1.18.sql");

/// A hand-made OpenCode database.
pub(crate) struct HandmadeDatabase {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
}

impl HandmadeDatabase {
    pub(crate) fn new(path: &Path, schema: &str) -> TestResult<Self> {
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let conn = connect(path)?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.execute_batch(schema)?;
        let foreign = Self { conn, path: path.to_path_buf() };
        foreign.conn.execute(
            "INSERT INTO project (id, worktree, vcs, time_created, time_updated, sandboxes)
             VALUES (?1, '/home/user/project', 'git', 1000, 2000, '[]')",
            [PROJECT],
        )?;
        Ok(foreign)
    }

    pub(crate) fn add_session(&self, id: &str) -> TestResult {
        self.add_session_of(id, PROJECT, None)
    }

    pub(crate) fn add_session_of(
        &self,
        id: &str,
        project: &str,
        parent: Option<&str>,
    ) -> TestResult {
        self.conn.pragma_update(None, "foreign_keys", "OFF")?;
        self.conn.execute(
            "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, time_created, time_updated)
             VALUES (?1, ?2, ?3, 'kind-word', '/home/user/project', 'a title', '1.2.10', 1000, 2000)",
            (id, project, parent),
        )?;
        Ok(())
    }

    pub(crate) fn add_message(&self, id: &str, session: &str, at: i64, data: &str) -> TestResult {
        self.conn.execute(
            "INSERT INTO message (id, session_id, time_created, time_updated, data) VALUES (?1, ?2, ?3, ?3, ?4)",
            (id, session, at, data),
        )?;
        Ok(())
    }

    pub(crate) fn add_part(
        &self,
        id: &str,
        message: &str,
        session: &str,
        data: &str,
    ) -> TestResult {
        self.conn.execute(
            "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data)
             VALUES (?1, ?2, ?3, 1000, 1000, ?4)",
            (id, message, session, data),
        )?;
        Ok(())
    }

    /// A session with one exchange: a question and an answer of one step.
    pub(crate) fn add_small_session(&self, name: &str) -> TestResult {
        let (session, ask, answer) =
            (format!("ses_{name}"), format!("msg_{name}1"), format!("msg_{name}2"));
        self.add_session(&session)?;
        self.add_message(&ask, &session, 1000, &user_message_json(1000).to_string())?;
        self.add_part(
            &format!("prt_{name}1"),
            &ask,
            &session,
            &text_part_json("hello").to_string(),
        )?;
        self.add_message(&answer, &session, 1001, &assistant_message_json(1001, &ask).to_string())?;
        self.add_part(
            &format!("prt_{name}2"),
            &answer,
            &session,
            &text_part_json("hi").to_string(),
        )?;
        self.add_part(&format!("prt_{name}3"), &answer, &session, &step_finish_json().to_string())
    }
}

pub(crate) fn user_message_json(created: i64) -> Value {
    json!({ "role": "user", "time": { "created": created }, "agent": "build",
            "model": { "providerID": "p", "modelID": "m" } })
}

pub(crate) fn assistant_message_json(created: i64, parent: &str) -> Value {
    json!({ "role": "assistant", "time": { "created": created, "completed": created + 5 },
            "parentID": parent, "modelID": "m", "providerID": "p", "mode": "build", "agent": "build",
            "path": { "cwd": "/home/user/project", "root": "/home/user/project" }, "cost": 0.00119,
            "tokens": { "input": 1100, "output": 40, "reasoning": 0, "cache": { "read": 100, "write": 0 } },
            "finish": "stop" })
}

pub(crate) fn text_part_json(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub(crate) fn step_finish_json() -> Value {
    json!({ "type": "step-finish", "reason": "stop", "cost": 0.00119,
            "tokens": { "input": 1100, "output": 40, "reasoning": 0, "cache": { "read": 100, "write": 0 } } })
}
