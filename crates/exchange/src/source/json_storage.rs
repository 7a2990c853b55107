//! OpenCode's JSON directory of before 1.2: `storage/` with one file per thing.
//!
//! Ids come from the names of files and directories, never from the JSON, and a session belongs to the
//! project whose directory it lies in: earlier programs moved files without changing what they say. The
//! diffs inside old sessions are handed on apart, as OpenCode's own second file migration does.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::SourceError;
use super::database::{emit_rules, read_diff_file};
use super::json_files::{self, JsonDirEntry};
use super::legacy_layout;
use super::source_record::{
    KindTotals, OrderedSession, RecordSink, SourceReader, SourceRecord, hand, parents_first,
};
use crate::foreign_id;
use crate::record_kind::RecordKind;

type StorageFlow = Result<ControlFlow<()>, SourceError>;

/// A JSON directory, perhaps with the even older layout next to it.
pub(super) struct JsonStorage {
    /// The directory `storage`.
    root: PathBuf,
    /// The directory `project` of the older layout.
    older: Option<PathBuf>,
}

/// Where the files of one session lie.
#[derive(Clone, Debug)]
pub(super) struct SessionFiles {
    /// The project, by name.
    pub(super) project: String,
    /// The session's own file.
    pub(super) file: PathBuf,
    /// The directory of its messages.
    pub(super) messages: PathBuf,
    /// The directory that holds a directory of parts per message.
    pub(super) parts: PathBuf,
}

impl JsonStorage {
    /// Reads `root`, and the older layout in `older` if there is one.
    pub(super) fn new(root: PathBuf, older: Option<PathBuf>) -> Self {
        Self { root, older }
    }

    /// True if the directory looks like one.
    pub(super) fn is_json_storage(root: &Path) -> bool {
        ["session", "message", "project"].iter().any(|name| root.join(name).is_dir())
    }

    /// How many session files there are.
    pub(super) fn session_count(&self) -> Result<u64, SourceError> {
        Ok(self.list_sessions()?.len() as u64)
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn read_projects(&self, sink: RecordSink<'_>) -> StorageFlow {
        for entry in json_files::list_files(&self.dir("project"))? {
            let record = match read_entry(&entry, RecordKind::Project) {
                Ok((id, body)) => SourceRecord::Project { id, body },
                Err(bad) => *bad,
            };
            hand!(sink(record));
        }
        match &self.older {
            Some(dir) => legacy_layout::read_projects(dir, sink),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn read_approvals(&self, sink: RecordSink<'_>) -> StorageFlow {
        for entry in json_files::list_files(&self.dir("permission"))? {
            match read_entry(&entry, RecordKind::Permission) {
                Ok((project, rules)) => hand!(emit_rules(&project, rules, sink)?),
                Err(bad) => hand!(sink(*bad)),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Every session file, parents first; files of the older layout only if the newer has no such one.
    fn list_sessions(&self) -> Result<Vec<OrderedSession<SessionFiles>>, SourceError> {
        let mut list = Vec::new();
        for (project, dir) in json_files::list_dirs(&self.dir("session"))? {
            for entry in json_files::list_files(&dir)? {
                if let JsonDirEntry::Json { name, path } = entry {
                    let folder = SessionFiles {
                        project: project.clone(),
                        messages: self.dir("message").join(&name),
                        parts: self.dir("part"),
                        file: path,
                    };
                    list.push(to_ordered_session(name, folder));
                }
            }
        }
        if let Some(dir) = &self.older {
            let known: HashSet<String> = list.iter().map(|session| session.id.clone()).collect();
            let older = legacy_layout::list_session_files(dir)?
                .into_iter()
                .filter(|(id, _)| !known.contains(id));
            list.extend(older.map(|(id, folder)| to_ordered_session(id, folder)));
        }
        Ok(parents_first(list))
    }

    /// Files that are no sessions, and sessions that lie in both layouts.
    fn read_invalid_entries(&self, sink: RecordSink<'_>) -> StorageFlow {
        let mut known = HashSet::new();
        for (_, dir) in json_files::list_dirs(&self.dir("session"))? {
            for entry in json_files::list_files(&dir)? {
                match entry {
                    JsonDirEntry::Json { name, .. } => drop(known.insert(name)),
                    JsonDirEntry::Other { name } => {
                        hand!(sink(not_json_record(RecordKind::Session, name)))
                    }
                }
            }
        }
        let Some(dir) = &self.older else {
            return Ok(ControlFlow::Continue(()));
        };
        let both = legacy_layout::list_session_files(dir)?
            .iter()
            .filter(|(id, _)| known.contains(id))
            .count();
        if both > 0 {
            let note = format!(
                "{both} sessions lie in project/ and in storage/, where OpenCode copied them; \
                 the copies in storage/ were read"
            );
            hand!(sink(SourceRecord::Note(note)));
        }
        legacy_layout::read_orphans(dir, sink)
    }

    fn read_session(
        &self,
        session: &OrderedSession<SessionFiles>,
        seen: &mut HashSet<String>,
        sink: RecordSink<'_>,
    ) -> StorageFlow {
        let (id, folder) = (&session.id, &session.key);
        let mut inner = None;
        match json_files::read_json(&folder.file) {
            Ok(mut body) => {
                inner = take_diffs(&mut body);
                let project = folder.project.clone();
                hand!(sink(SourceRecord::Session { id: id.clone(), project, body }));
            }
            Err(reason) => {
                hand!(sink(SourceRecord::Unreadable {
                    kind: RecordKind::Session,
                    id: id.clone(),
                    reason
                }));
            }
        }
        hand!(read_messages(id, folder, seen, sink)?);
        let todo = self.dir("todo").join(format!("{id}.json"));
        if json_files::is_there(&todo) {
            hand!(sink(read_owned_file(&todo, RecordKind::Todo, id)));
        }
        let share = self.dir("session_share").join(format!("{id}.json"));
        if json_files::is_there(&share) {
            hand!(sink(read_owned_file(&share, RecordKind::Share, id)));
        }
        let diff = self.dir("session_diff").join(format!("{id}.json"));
        if json_files::is_there(&diff) {
            hand!(sink(read_owned_file(&diff, RecordKind::Diff, id)));
        } else if let Some(body) = inner {
            hand!(sink(SourceRecord::Diff { session: id.clone(), body }));
        }
        Ok(sink(SourceRecord::EndOfSession))
    }

    /// What belongs to no session or message of this directory.
    fn read_orphans(
        &self,
        sessions: &HashSet<String>,
        seen: &HashSet<String>,
        sink: RecordSink<'_>,
    ) -> StorageFlow {
        for (session, dir) in json_files::list_dirs(&self.dir("message"))? {
            if !sessions.contains(&session) {
                for entry in json_files::list_files(&dir)? {
                    hand!(sink(read_message_file(&entry, &session).1));
                }
            }
        }
        for (message, dir) in json_files::list_dirs(&self.dir("part"))? {
            if !seen.contains(&message) {
                hand!(read_parts(&dir, &message, 0, sink)?);
            }
        }
        for (name, kind) in [
            ("todo", RecordKind::Todo),
            ("session_share", RecordKind::Share),
            ("session_diff", RecordKind::Diff),
        ] {
            for entry in json_files::list_files(&self.dir(name))? {
                match entry {
                    JsonDirEntry::Json { name, .. } if sessions.contains(&name) => {}
                    JsonDirEntry::Json { name, path } => {
                        hand!(sink(read_owned_file(&path, kind, &name)))
                    }
                    JsonDirEntry::Other { name } => hand!(sink(not_json_record(kind, name))),
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl SourceReader for JsonStorage {
    fn describe(&self) -> String {
        format!("OpenCode JSON storage {}", self.root.display())
    }

    fn totals(&self) -> KindTotals {
        let nested = |name: &str| -> u64 {
            let dirs = json_files::list_dirs(&self.dir(name)).unwrap_or_default();
            dirs.iter()
                .map(|(_, dir)| json_files::list_files(dir).unwrap_or_default().len() as u64)
                .sum()
        };
        let flat =
            |name: &str| json_files::list_files(&self.dir(name)).unwrap_or_default().len() as u64;
        let mut totals = KindTotals::new();
        totals.insert(RecordKind::Project, flat("project"));
        totals.insert(RecordKind::Session, self.session_count().unwrap_or(0));
        totals.insert(RecordKind::Message, nested("message"));
        totals.insert(RecordKind::Part, nested("part"));
        totals.insert(RecordKind::Share, flat("session_share"));
        totals.insert(RecordKind::Diff, flat("session_diff"));
        totals
    }

    fn read(&mut self, sink: RecordSink<'_>) -> StorageFlow {
        hand!(self.read_projects(sink)?);
        hand!(self.read_approvals(sink)?);
        let sessions = self.list_sessions()?;
        let mut seen = HashSet::new();
        for session in &sessions {
            hand!(self.read_session(session, &mut seen, sink)?);
        }
        let names = sessions.into_iter().map(|session| session.id).collect();
        hand!(self.read_orphans(&names, &seen, sink)?);
        self.read_invalid_entries(sink)
    }
}

/// A session file with the parent that its JSON names.
fn to_ordered_session(id: String, folder: SessionFiles) -> OrderedSession<SessionFiles> {
    let body = json_files::read_json(&folder.file).unwrap_or_default();
    let parent = body.get("parentID").and_then(Value::as_str).map(str::to_owned);
    OrderedSession { id, parent, key: folder }
}

/// The messages of a session in OpenCode's order, each followed by its parts.
fn read_messages(
    id: &str,
    folder: &SessionFiles,
    seen: &mut HashSet<String>,
    sink: RecordSink<'_>,
) -> StorageFlow {
    // Read twice, so that only one of them is in memory: for the order, and to be handed on.
    let mut list = Vec::new();
    for entry in json_files::list_files(&folder.messages)? {
        let (name, record) = read_message_file(&entry, id);
        list.push((created_time(&record), name, entry));
    }
    list.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    for (time, name, entry) in list {
        hand!(sink(read_message_file(&entry, id).1));
        if seen.insert(name.clone()) {
            hand!(read_parts(&folder.parts.join(&name), &name, time.unwrap_or(0), sink)?);
        }
    }
    Ok(ControlFlow::Continue(()))
}

pub(super) fn read_message_file(entry: &JsonDirEntry, session: &str) -> (String, SourceRecord) {
    match read_entry(entry, RecordKind::Message) {
        Ok((id, body)) => {
            let created = body.pointer("/time/created").and_then(Value::as_f64).map(|ms| ms as i64);
            (id.clone(), SourceRecord::Message { id, session: session.to_owned(), created, body })
        }
        Err(bad) => (name_of(entry).to_owned(), *bad),
    }
}

fn created_time(record: &SourceRecord) -> Option<i64> {
    if let SourceRecord::Message { created, .. } = record { *created } else { None }
}

/// The parts of a message that was made at `near`.
pub(super) fn read_parts(
    dir: &Path,
    message: &str,
    near: i64,
    sink: RecordSink<'_>,
) -> StorageFlow {
    let mut list = json_files::list_files(dir)?;
    list.sort_by_cached_key(|entry| foreign_id::part_sort_key(name_of(entry), near, None));
    for entry in list {
        hand!(sink(match read_entry(&entry, RecordKind::Part) {
            Ok((id, body)) => SourceRecord::Part { id, message: message.to_owned(), body },
            Err(bad) => *bad,
        }));
    }
    Ok(ControlFlow::Continue(()))
}

/// A file that belongs to a session and is named after it.
fn read_owned_file(path: &Path, kind: RecordKind, session: &str) -> SourceRecord {
    let entry = JsonDirEntry::Json { name: session.to_owned(), path: path.to_path_buf() };
    if kind == RecordKind::Diff {
        return read_diff_file(&entry);
    }
    match read_entry(&entry, kind) {
        Ok((session, body)) if kind == RecordKind::Todo => SourceRecord::Todos { session, body },
        Ok((session, body)) => SourceRecord::Share { session, body },
        Err(bad) => *bad,
    }
}

/// Takes the diffs out of a session's summary and leaves their counts.
fn take_diffs(body: &mut Value) -> Option<Value> {
    let summary = body.get_mut("summary")?.as_object_mut()?;
    let diffs = summary.remove("diffs")?;
    let list = diffs.as_array()?;
    let sum = |key: &str| list.iter().filter_map(|diff| diff.get(key)?.as_i64()).sum::<i64>();
    for (key, value) in [
        ("additions", json!(sum("additions"))),
        ("deletions", json!(sum("deletions"))),
        ("files", json!(list.len())),
    ] {
        summary.entry(key).or_insert(value);
    }
    (!list.is_empty()).then_some(diffs)
}

fn read_entry(
    entry: &JsonDirEntry,
    kind: RecordKind,
) -> Result<(String, Value), Box<SourceRecord>> {
    match entry {
        JsonDirEntry::Other { name } => Err(Box::new(not_json_record(kind, name.clone()))),
        JsonDirEntry::Json { name, path } => match json_files::read_json(path) {
            Ok(body) => Ok((name.clone(), body)),
            Err(reason) => {
                Err(Box::new(SourceRecord::Unreadable { kind, id: name.clone(), reason }))
            }
        },
    }
}

fn name_of(entry: &JsonDirEntry) -> &str {
    match entry {
        JsonDirEntry::Json { name, .. } | JsonDirEntry::Other { name } => name,
    }
}

fn not_json_record(kind: RecordKind, id: String) -> SourceRecord {
    SourceRecord::Unreadable { kind, id, reason: "not a .json file".to_owned() }
}
