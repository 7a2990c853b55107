//! What most tests of the store need: values of the model in a few words, and a look at the rows.

use std::path::Path;

use rusqlite::types::Value as Cell;
use serde_json::{Value, json};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, Part, PartBody, Project, Session};
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_store::{Actor, Context, DataLayout, LogEvent, Options, Result, Store, Tx};

/// 2026-01-01, where the tests' clock stands.
pub(crate) const NOW: EpochMillis = EpochMillis(1_767_225_600_000);

pub(crate) fn open(dir: &Path) -> Store {
    Store::open(&Options::new(DataLayout::new(dir), NOW)).expect("opens")
}

pub(crate) fn ctx() -> Context {
    Context::new(Actor::new("ada").expect("actor"), NOW)
}

pub(crate) fn sid(text: &str) -> SessionId {
    text.parse().expect("session id")
}

pub(crate) fn mid(text: &str) -> MessageId {
    text.parse().expect("message id")
}

pub(crate) fn pid(text: &str) -> PartId {
    text.parse().expect("part id")
}

pub(crate) fn project(id: &str) -> Project {
    let value = json!({"id": id, "worktree": "/home/ada/p", "time": {"created": 1, "updated": 1}});
    serde_json::from_value(value).expect("project")
}

pub(crate) fn session(id: &str) -> Session {
    let value = json!({"id": id, "slug": "calm-otter", "projectID": "p1",
        "directory": "/home/ada/p", "title": "T", "version": "1",
        "time": {"created": 1, "updated": 1}});
    serde_json::from_value(value).expect("session")
}

pub(crate) fn user(session: &str, id: &str, created: impl Into<Value>) -> Message {
    let created = created.into();
    let body = json!({"role": "user", "time": {"created": created}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}});
    Message {
        id: mid(id),
        session: sid(session),
        body: serde_json::from_value(body).expect("user"),
    }
}

pub(crate) fn assistant(session: &str, id: &str, created: impl Into<Value>) -> Message {
    let created = created.into();
    let body = json!({"role": "assistant", "time": {"created": created}, "parentID": "msg_0",
        "modelID": "m", "providerID": "p", "mode": "build", "path": {"cwd": "/", "root": "/"},
        "cost": 0, "tokens": tokens(0)});
    let body = serde_json::from_value(body).expect("assistant");
    Message { id: mid(id), session: sid(session), body }
}

pub(crate) fn tokens(n: i64) -> Value {
    json!({"input": n, "output": n + 1, "reasoning": 2, "cache": {"read": 3, "write": 4}})
}

pub(crate) fn part(session: &str, message: &str, id: &str, body: Value) -> Part {
    let body = PartBody::parse_lenient(body).expect("part body");
    Part { id: pid(id), session: sid(session), message: mid(message), body }
}

pub(crate) fn text(session: &str, message: &str, id: &str, text: &str) -> Part {
    part(session, message, id, json!({"type": "text", "text": text}))
}

/// Writes and waits.
pub(crate) fn write<T: Send + 'static>(
    store: &Store,
    run: impl FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    store.write(&ctx(), run).wait()
}

/// A store with one project and these sessions.
pub(crate) fn with_sessions(dir: &Path, ids: &'static [&'static str]) -> Store {
    let store = open(dir);
    write(&store, move |tx| {
        tx.projects().put(&project("p1"))?;
        ids.iter().try_for_each(|id| tx.sessions().create(&session(id)).map(drop))
    })
    .expect("created");
    store
}

/// The whole log.
pub(crate) fn log(store: &Store) -> Vec<LogEvent> {
    store.read(&ctx(), |r| r.log().after(LogCursor(0), 1_000_000)).expect("log").events
}

/// A second connection, to inspect and to damage the database.
#[expect(clippy::disallowed_methods, reason = "tests look at the file behind the store's back")]
pub(crate) fn raw(dir: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(dir.join("turnstone.db")).expect("opens")
}

const TABLES: &[(&str, &str)] = &[
    ("project", "SELECT * FROM project ORDER BY 1"),
    ("project_alias", "SELECT * FROM project_alias ORDER BY 1, 2, 3"),
    ("session", "SELECT * FROM session ORDER BY 1"),
    ("message", "SELECT * FROM message ORDER BY 1"),
    ("part", "SELECT * FROM part ORDER BY 1"),
    ("todo", "SELECT * FROM todo ORDER BY 1"),
    ("turn", "SELECT * FROM turn ORDER BY 1"),
    ("request", "SELECT * FROM request ORDER BY 1"),
    ("approval", "SELECT * FROM approval ORDER BY 1, 2, 3"),
    ("input", "SELECT * FROM input ORDER BY 1"),
    ("share", "SELECT * FROM share ORDER BY 1"),
    ("diff", "SELECT * FROM diff ORDER BY 1"),
];

/// Every row of every projection.
pub(crate) fn projections(dir: &Path) -> Vec<(&'static str, Vec<Cell>)> {
    let conn = raw(dir);
    let mut all = Vec::new();
    for (table, sql) in TABLES {
        let mut statement = conn.prepare(sql).expect("prepares");
        let width = statement.column_count();
        let rows = statement
            .query_map([], |row| (0..width).map(|i| row.get(i)).collect::<rusqlite::Result<_>>())
            .expect("queries");
        all.extend(rows.map(|row| (*table, row.expect("row"))));
    }
    all
}

/// Each test binary needs a part of this module; here is the whole of it in use.
#[test]
fn helper_functions_agree() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_x"]);
    let step = json!({"type": "step-finish", "reason": "stop", "cost": 1, "tokens": tokens(1)});
    write(&store, move |tx| {
        tx.messages().put(&user("ses_x", "msg_x", 1))?;
        tx.messages().put(&assistant("ses_x", "msg_y", 2))?;
        tx.messages().put_part(&part("ses_x", "msg_y", "prt_x", step.clone()))?;
        tx.messages().put_part(&text("ses_x", "msg_x", "prt_y", "hi"))
    })
    .expect("written");
    assert_eq!(log(&store).len(), 6);
    assert_eq!(projections(dir.path()).len(), 6);
    assert!(store.read(&ctx(), |r| r.messages().get_part(&sid("ses_x"), &pid("prt_x"))).is_ok());
    assert!(store.read(&ctx(), |r| r.messages().get(&sid("ses_x"), &mid("msg_x"))).is_ok());
}
