//! A store to search in, and what is written to it.

use std::path::Path;

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::{Message, Part, PartBody, Project, Session};
use turnstone_core::time::EpochMillis;
use turnstone_store::{
    Actor, Context, DataLayout, Options, SearchFilter, SearchHit, SearchPage, SearchQuery, Store,
};

pub(crate) struct SearchTestStore {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) ctx: Context,
}

pub(crate) fn open(dir: &Path) -> Store {
    Store::open(&Options::new(DataLayout::new(dir), EpochMillis(1))).expect("opens")
}

pub(crate) fn actor(name: &str) -> Context {
    Context::new(Actor::new(name).expect("actor"), EpochMillis(1000))
}

pub(crate) fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a valid value")
}

pub(crate) fn sid(id: &str) -> SessionId {
    id.parse().expect("id")
}

impl SearchTestStore {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let store = open(dir.path());
        let case = Self { dir, store, ctx: actor("ada") };
        case.project("p1");
        case.session("ses_a", &json!({"title": "First"}));
        case
    }

    pub(crate) fn project(&self, id: &str) {
        let project: Project = from_json(
            json!({"id": id, "worktree": format!("/w/{id}"), "time": {"created": 1, "updated": 1}}),
        );
        self.store.write(&self.ctx, move |tx| tx.projects().put(&project)).wait().expect("project");
    }

    /// Stores a session; `fields` replace the usual ones.
    pub(crate) fn session(&self, id: &str, fields: &Value) {
        let mut value = json!({"id": id, "slug": "s", "projectID": "p1", "directory": "/w",
            "title": "T", "version": "1", "time": {"created": 1, "updated": 1}});
        let map = value.as_object_mut().expect("an object");
        map.extend(fields.as_object().cloned().unwrap_or_default());
        let session: Session = from_json(value);
        self.store.write(&self.ctx, move |tx| tx.sessions().put(&session)).wait().expect("session");
    }

    pub(crate) fn message(&self, ctx: &Context, session: &str, id: &str, created: i64) {
        let body =
            from_json(json!({"role": "user", "time": {"created": created}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}}));
        let message = Message { id: id.parse().expect("id"), session: sid(session), body };
        self.store.write(ctx, move |tx| tx.messages().put(&message)).wait().expect("message");
    }

    pub(crate) fn part(&self, session: &str, message: &str, id: &str, body: Value) {
        put_part(&self.store, &self.ctx, session, message, id, body);
    }

    /// A message `msg_N` with one part `prt_N` of `text` in session `ses_a`.
    pub(crate) fn add_text(&self, n: u32, text: &str) {
        self.message(&self.ctx, "ses_a", &format!("msg_{n}"), i64::from(n));
        let (message, part) = (format!("msg_{n}"), format!("prt_{n}"));
        self.part("ses_a", &message, &part, json!({"type": "text", "text": text}));
    }

    pub(crate) fn search(&self, query: &SearchQuery) -> SearchPage {
        let page = self.store.session_search().query(&self.ctx, query).expect("searches");
        assert_eq!(page.behind, 0);
        page
    }

    pub(crate) fn hits(&self, text: &str) -> Vec<SearchHit> {
        self.search(&SearchQuery::new(text)).hits
    }

    /// The parts that match, sorted; titles as the session's id.
    pub(crate) fn found_texts(&self, text: &str) -> Vec<String> {
        self.found_in(text, SearchFilter::default())
    }

    pub(crate) fn found_in(&self, text: &str, filter: SearchFilter) -> Vec<String> {
        let query = SearchQuery { filter, ..SearchQuery::new(text) };
        names(&self.search(&query).hits)
    }
}

pub(crate) fn put_part(
    store: &Store,
    ctx: &Context,
    session: &str,
    message: &str,
    id: &str,
    body: Value,
) {
    let part = Part {
        id: id.parse().expect("id"),
        session: sid(session),
        message: message.parse().expect("id"),
        body: PartBody::parse_lenient(body).expect("a part"),
    };
    store.write(ctx, move |tx| tx.messages().put_part(&part)).wait().expect("part");
}

pub(crate) fn names(hits: &[SearchHit]) -> Vec<String> {
    let name = |hit: &SearchHit| match &hit.part {
        Some(part) => part.to_string(),
        None => hit.session.to_string(),
    };
    let mut names: Vec<String> = hits.iter().map(name).collect();
    names.sort();
    names
}

pub(crate) fn tool(status: &str, input: &Value, output: &str) -> Value {
    let state = match status {
        "completed" => json!({"status": status, "input": input, "output": output, "title": "t",
            "metadata": {}, "time": {"start": 1, "end": 2}}),
        "error" => json!({"status": status, "input": input, "error": output,
            "time": {"start": 1, "end": 2}}),
        _ => json!({"status": status, "input": input, "time": {"start": 1}}),
    };
    json!({"type": "tool", "callID": "c", "tool": "bash", "state": state})
}
