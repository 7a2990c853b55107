//! A store of its own for each test, and hand-made OpenCode databases.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use turnstone_core::time::Millis;
use turnstone_exchange::{Import, Kind, Options, Report, SourceError, export};
use turnstone_store::{Actor, Context, Layout, Store};

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub(crate) const NOW: Millis = Millis(1_794_800_000_000);
pub(crate) const PROJECT: &str = "39a93880b0bb47938bba96c764a073c0740b06a8";

/// A temporary directory with a store in it.
pub(crate) struct Case {
    pub(crate) dir: TempDir,
    pub(crate) store: Store,
}

impl Case {
    pub(crate) fn new() -> TestResult<Self> {
        let dir = tempfile::tempdir()?;
        let store = open(&dir.path().join("turnstone"))?;
        Ok(Self { dir, store })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn ctx(&self) -> Context {
        Context::new(Actor::new("somebody").expect("a name"), NOW)
    }

    /// Imports `source` and checks that the report adds up.
    pub(crate) fn import(&self, source: &Path) -> TestResult<Report> {
        let report = Import::plan(source, &Options::default())?.run(
            &self.store,
            &self.ctx(),
            &mut |progress| assert!(progress.done <= progress.total),
        )?;
        check(&report);
        Ok(report)
    }

    pub(crate) fn refuses(&self, source: &Path) -> SourceError {
        match Import::plan(source, &Options::default()) {
            Ok(_) => panic!("{} was taken", source.display()),
            Err(error) => error,
        }
    }

    pub(crate) fn export(&self, session: &str) -> TestResult<Value> {
        Ok(export(&self.store, &self.ctx(), &session.parse()?, false)?)
    }

    pub(crate) fn sanitized(&self, session: &str) -> TestResult<Value> {
        Ok(export(&self.store, &self.ctx(), &session.parse()?, true)?)
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

pub(crate) fn open(path: &Path) -> TestResult<Store> {
    let mut options = turnstone_store::Options::new(Layout::new(path), NOW);
    options.allow_network = true;
    Ok(Store::open(&options)?)
}

/// Every thing found is accounted for, and everything skipped says why.
pub(crate) fn check(report: &Report) {
    for (kind, tally) in &report.kinds {
        assert!(tally.adds_up(), "{kind}: {tally:?}");
        for skipped in tally.orphans.iter().chain(&tally.rejected) {
            assert!(!skipped.reason.is_empty(), "{kind} {} without a reason", skipped.id);
        }
    }
}

/// `(found, imported, unchanged, orphaned, rejected)` of one kind.
pub(crate) fn counts(report: &Report, kind: Kind) -> (u64, u64, u64, u64, usize) {
    let tally = report.tally(kind);
    (tally.found, tally.imported, tally.unchanged, tally.orphaned, tally.rejected.len())
}

/// Nothing was written: everything was here already.
pub(crate) fn is_unchanged(report: &Report) -> bool {
    report.kinds.values().all(|tally| tally.imported == 0) && report.is_clean()
}

/// The tables of OpenCode's first SQLite versions (1.2).
pub(crate) const FIRST_SCHEMA: &str = include_str!("data/schema-1.2.sql");
/// The tables of today's OpenCode (1.18).
pub(crate) const TODAY_SCHEMA: &str = include_str!("data/schema-1.18.sql");

/// A hand-made OpenCode database.
pub(crate) struct Foreign {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
}

impl Foreign {
    pub(crate) fn new(path: &Path, schema: &str) -> TestResult<Self> {
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let conn = Connection::open(path)?;
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

    pub(crate) fn session(&self, id: &str) -> TestResult {
        self.session_of(id, PROJECT, None)
    }

    pub(crate) fn session_of(&self, id: &str, project: &str, parent: Option<&str>) -> TestResult {
        self.conn.pragma_update(None, "foreign_keys", "OFF")?;
        self.conn.execute(
            "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, time_created, time_updated)
             VALUES (?1, ?2, ?3, 'kind-word', '/home/user/project', 'a title', '1.2.10', 1000, 2000)",
            (id, project, parent),
        )?;
        Ok(())
    }

    pub(crate) fn message(&self, id: &str, session: &str, at: i64, data: &str) -> TestResult {
        self.conn.execute(
            "INSERT INTO message (id, session_id, time_created, time_updated, data) VALUES (?1, ?2, ?3, ?3, ?4)",
            (id, session, at, data),
        )?;
        Ok(())
    }

    pub(crate) fn part(&self, id: &str, message: &str, session: &str, data: &str) -> TestResult {
        self.conn.execute(
            "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data)
             VALUES (?1, ?2, ?3, 1000, 1000, ?4)",
            (id, message, session, data),
        )?;
        Ok(())
    }

    /// A session with one exchange: a question and an answer of one step.
    pub(crate) fn small(&self, name: &str) -> TestResult {
        let (session, ask, answer) =
            (format!("ses_{name}"), format!("msg_{name}1"), format!("msg_{name}2"));
        self.session(&session)?;
        self.message(&ask, &session, 1000, &user(1000).to_string())?;
        self.part(&format!("prt_{name}1"), &ask, &session, &text("hello").to_string())?;
        self.message(&answer, &session, 1001, &assistant(1001, &ask).to_string())?;
        self.part(&format!("prt_{name}2"), &answer, &session, &text("hi").to_string())?;
        self.part(&format!("prt_{name}3"), &answer, &session, &step().to_string())
    }
}

pub(crate) fn user(created: i64) -> Value {
    json!({ "role": "user", "time": { "created": created }, "agent": "build",
            "model": { "providerID": "p", "modelID": "m" } })
}

pub(crate) fn assistant(created: i64, parent: &str) -> Value {
    json!({ "role": "assistant", "time": { "created": created, "completed": created + 5 },
            "parentID": parent, "modelID": "m", "providerID": "p", "mode": "build", "agent": "build",
            "path": { "cwd": "/home/user/project", "root": "/home/user/project" }, "cost": 0.00119,
            "tokens": { "input": 1100, "output": 40, "reasoning": 0, "cache": { "read": 100, "write": 0 } },
            "finish": "stop" })
}

pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub(crate) fn step() -> Value {
    json!({ "type": "step-finish", "reason": "stop", "cost": 0.00119,
            "tokens": { "input": 1100, "output": 40, "reasoning": 0, "cache": { "read": 100, "write": 0 } } })
}
