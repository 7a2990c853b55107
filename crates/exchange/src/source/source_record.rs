//! What readers hand on: raw things with their names in the source.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use serde_json::Value;

use super::SourceError;
use crate::record_kind::RecordKind;

/// How many things of each kind a source holds.
pub(crate) type KindTotals = BTreeMap<RecordKind, u64>;

/// One thing of a source: readable JSON in OpenCode's shape, not yet judged.
#[derive(Clone, Debug)]
pub(crate) enum SourceRecord {
    /// A project.
    Project { id: String, body: Value },
    /// What a session records of its project where the source has no projects.
    ImpliedProject { project: String, worktree: String },
    /// A rule approved for a project.
    Approval { id: String, project: String, body: Value },
    /// A session; what follows up to [`SourceRecord::EndOfSession`] belongs to it.
    Session { id: String, project: String, body: Value },
    /// A message, and the time the source ordered it by.
    Message { id: String, session: String, created: Option<i64>, body: Value },
    /// A part.
    Part { id: String, message: String, body: Value },
    /// A whole to-do list.
    Todos { session: String, body: Value },
    /// A share with its secret.
    Share { session: String, body: Value },
    /// A stored diff.
    Diff { session: String, body: Value },
    /// Everything of the session has been handed on.
    EndOfSession,
    /// Something that cannot be read or is not for us.
    Unreadable { kind: RecordKind, id: String, reason: String },
    /// Something people should know.
    Note(String),
}

/// Takes records; breaks when it has had enough.
pub(crate) type RecordSink<'a> = &'a mut dyn FnMut(SourceRecord) -> ControlFlow<()>;

/// A source that can be read once from the beginning to the end.
pub(crate) trait SourceReader {
    /// Where it reads, in words.
    fn describe(&self) -> String;

    /// How much there is, for a progress bar; the report counts for itself.
    fn totals(&self) -> KindTotals;

    /// Hands every record to `sink`.
    fn read(&mut self, sink: RecordSink<'_>) -> Result<ControlFlow<()>, SourceError>;
}

/// Continues with the next record unless the sink had enough.
macro_rules! hand {
    ($flow:expr) => {
        if let ::std::ops::ControlFlow::Break(()) = $flow {
            return Ok(::std::ops::ControlFlow::Break(()));
        }
    };
}
pub(super) use hand;

/// A session as far as its place in the order is concerned.
#[derive(Clone, Debug)]
pub(super) struct OrderedSession<T> {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) key: T,
}

/// Brings parents before their children and otherwise keeps the order; cycles come last, as they are.
pub(super) fn parents_first<T>(sessions: Vec<OrderedSession<T>>) -> Vec<OrderedSession<T>> {
    let known: HashSet<String> = sessions.iter().map(|session| session.id.clone()).collect();
    let mut waiting: HashMap<String, Vec<OrderedSession<T>>> = HashMap::new();
    let mut ready = Vec::new();
    for session in sessions {
        match session.parent.clone().filter(|parent| known.contains(parent)) {
            Some(parent) => waiting.entry(parent).or_default().push(session),
            None => ready.push(session),
        }
    }
    let mut next = 0;
    while next < ready.len() {
        let children = waiting.remove(&ready[next].id).unwrap_or_default();
        ready.extend(children);
        next += 1;
    }
    let mut rest: Vec<_> = waiting.into_values().flatten().collect();
    rest.sort_by(|a, b| a.id.cmp(&b.id));
    ready.extend(rest);
    ready
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, parent: Option<&str>) -> OrderedSession<()> {
        OrderedSession { id: id.to_owned(), parent: parent.map(str::to_owned), key: () }
    }

    #[test]
    fn parents_come_before_their_children_and_cycles_come_last() {
        let list = vec![
            session("grandchild", Some("child")),
            session("loop-b", Some("loop-a")),
            session("loop-a", Some("loop-b")),
            session("child", Some("root")),
            session("stray", Some("gone")),
            session("root", None),
        ];
        let order: Vec<_> = parents_first(list).into_iter().map(|s| s.id).collect();
        assert_eq!(order, ["stray", "root", "child", "grandchild", "loop-a", "loop-b"]);
    }
}
