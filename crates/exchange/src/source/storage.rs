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
use super::database::{diff_file, rules_of};
use super::files::{self, Entry};
use super::older;
use super::record::{Ranked, Reader, Record, Sink, Totals, hand, parents_first};
use crate::identity;
use crate::kind::Kind;

type Flow = Result<ControlFlow<()>, SourceError>;

/// A JSON directory, perhaps with the even older layout beside it.
pub(super) struct Storage {
    /// The directory `storage`.
    root: PathBuf,
    /// The directory `project` of the older layout.
    older: Option<PathBuf>,
}

/// Where the files of one session lie.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// The project, by name.
    pub(super) project: String,
    /// The session's own file.
    pub(super) file: PathBuf,
    /// The directory of its messages.
    pub(super) messages: PathBuf,
    /// The directory that holds a directory of parts per message.
    pub(super) parts: PathBuf,
}

impl Storage {
    /// Reads `root`, and the older layout in `older` if there is one.
    pub(super) fn new(root: PathBuf, older: Option<PathBuf>) -> Self {
        Self { root, older }
    }

    /// True if the directory looks like one.
    pub(super) fn is_one(root: &Path) -> bool {
        ["session", "message", "project"].iter().any(|name| root.join(name).is_dir())
    }

    /// How many session files there are.
    pub(super) fn session_count(&self) -> Result<u64, SourceError> {
        Ok(self.ranked()?.len() as u64)
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn projects(&self, sink: Sink<'_>) -> Flow {
        for entry in files::list_files(&self.dir("project"))? {
            let record = match json_of(&entry, Kind::Project) {
                Ok((id, body)) => Record::Project { id, body },
                Err(bad) => *bad,
            };
            hand!(sink(record));
        }
        match &self.older {
            Some(dir) => older::projects(dir, sink),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn approvals(&self, sink: Sink<'_>) -> Flow {
        for entry in files::list_files(&self.dir("permission"))? {
            match json_of(&entry, Kind::Permission) {
                Ok((project, rules)) => hand!(rules_of(&project, rules, sink)?),
                Err(bad) => hand!(sink(*bad)),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Every session file, parents first; files of the older layout only if the newer has no such one.
    fn ranked(&self) -> Result<Vec<Ranked<Folder>>, SourceError> {
        let mut list = Vec::new();
        for (project, dir) in files::list_dirs(&self.dir("session"))? {
            for entry in files::list_files(&dir)? {
                if let Entry::Json { name, path } = entry {
                    let folder = Folder {
                        project: project.clone(),
                        messages: self.dir("message").join(&name),
                        parts: self.dir("part"),
                        file: path,
                    };
                    list.push(ranked(name, folder));
                }
            }
        }
        if let Some(dir) = &self.older {
            let known: HashSet<String> = list.iter().map(|session| session.id.clone()).collect();
            let older = older::folders(dir)?.into_iter().filter(|(id, _)| !known.contains(id));
            list.extend(older.map(|(id, folder)| ranked(id, folder)));
        }
        Ok(parents_first(list))
    }

    /// Files that are no sessions, and sessions that lie in both layouts.
    fn oddities(&self, sink: Sink<'_>) -> Flow {
        let mut known = HashSet::new();
        for (_, dir) in files::list_dirs(&self.dir("session"))? {
            for entry in files::list_files(&dir)? {
                match entry {
                    Entry::Json { name, .. } => drop(known.insert(name)),
                    Entry::Other { name } => hand!(sink(not_json(Kind::Session, name))),
                }
            }
        }
        let Some(dir) = &self.older else {
            return Ok(ControlFlow::Continue(()));
        };
        let both = older::folders(dir)?.iter().filter(|(id, _)| known.contains(id)).count();
        if both > 0 {
            let note = format!(
                "{both} sessions lie in project/ and in storage/, where OpenCode copied them; \
                 the copies in storage/ were read"
            );
            hand!(sink(Record::Note(note)));
        }
        older::strays(dir, sink)
    }

    fn session(
        &self,
        session: &Ranked<Folder>,
        seen: &mut HashSet<String>,
        sink: Sink<'_>,
    ) -> Flow {
        let (id, folder) = (&session.id, &session.key);
        let mut inner = None;
        match files::read_json(&folder.file) {
            Ok(mut body) => {
                inner = take_diffs(&mut body);
                let project = folder.project.clone();
                hand!(sink(Record::Session { id: id.clone(), project, body }));
            }
            Err(reason) => {
                hand!(sink(Record::Bad { kind: Kind::Session, id: id.clone(), reason }));
            }
        }
        hand!(messages(id, folder, seen, sink)?);
        let todo = self.dir("todo").join(format!("{id}.json"));
        if files::is_there(&todo) {
            hand!(sink(owned(&todo, Kind::Todo, id)));
        }
        let share = self.dir("session_share").join(format!("{id}.json"));
        if files::is_there(&share) {
            hand!(sink(owned(&share, Kind::Share, id)));
        }
        let diff = self.dir("session_diff").join(format!("{id}.json"));
        if files::is_there(&diff) {
            hand!(sink(owned(&diff, Kind::Diff, id)));
        } else if let Some(body) = inner {
            hand!(sink(Record::Diff { session: id.clone(), body }));
        }
        Ok(sink(Record::End))
    }

    /// What belongs to no session or message of this directory.
    fn strays(&self, sessions: &HashSet<String>, seen: &HashSet<String>, sink: Sink<'_>) -> Flow {
        for (session, dir) in files::list_dirs(&self.dir("message"))? {
            if !sessions.contains(&session) {
                for entry in files::list_files(&dir)? {
                    hand!(sink(message_file(&entry, &session).1));
                }
            }
        }
        for (message, dir) in files::list_dirs(&self.dir("part"))? {
            if !seen.contains(&message) {
                hand!(parts(&dir, &message, 0, sink)?);
            }
        }
        for (name, kind) in
            [("todo", Kind::Todo), ("session_share", Kind::Share), ("session_diff", Kind::Diff)]
        {
            for entry in files::list_files(&self.dir(name))? {
                match entry {
                    Entry::Json { name, .. } if sessions.contains(&name) => {}
                    Entry::Json { name, path } => hand!(sink(owned(&path, kind, &name))),
                    Entry::Other { name } => hand!(sink(not_json(kind, name))),
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Reader for Storage {
    fn describe(&self) -> String {
        format!("OpenCode JSON storage {}", self.root.display())
    }

    fn totals(&self) -> Totals {
        let nested = |name: &str| -> u64 {
            let dirs = files::list_dirs(&self.dir(name)).unwrap_or_default();
            dirs.iter()
                .map(|(_, dir)| files::list_files(dir).unwrap_or_default().len() as u64)
                .sum()
        };
        let flat = |name: &str| files::list_files(&self.dir(name)).unwrap_or_default().len() as u64;
        let mut totals = Totals::new();
        totals.insert(Kind::Project, flat("project"));
        totals.insert(Kind::Session, self.session_count().unwrap_or(0));
        totals.insert(Kind::Message, nested("message"));
        totals.insert(Kind::Part, nested("part"));
        totals.insert(Kind::Share, flat("session_share"));
        totals.insert(Kind::Diff, flat("session_diff"));
        totals
    }

    fn read(&mut self, sink: Sink<'_>) -> Flow {
        hand!(self.projects(sink)?);
        hand!(self.approvals(sink)?);
        let sessions = self.ranked()?;
        let mut seen = HashSet::new();
        for session in &sessions {
            hand!(self.session(session, &mut seen, sink)?);
        }
        let names = sessions.into_iter().map(|session| session.id).collect();
        hand!(self.strays(&names, &seen, sink)?);
        self.oddities(sink)
    }
}

/// A session file with what its JSON says of its parent.
fn ranked(id: String, folder: Folder) -> Ranked<Folder> {
    let body = files::read_json(&folder.file).unwrap_or_default();
    let parent = body.get("parentID").and_then(Value::as_str).map(str::to_owned);
    Ranked { id, parent, key: folder }
}

/// The messages of a session in OpenCode's order, each followed by its parts.
fn messages(id: &str, folder: &Folder, seen: &mut HashSet<String>, sink: Sink<'_>) -> Flow {
    // Read twice, so that only one of them is in memory: for the order, and to be handed on.
    let mut list = Vec::new();
    for entry in files::list_files(&folder.messages)? {
        let (name, record) = message_file(&entry, id);
        list.push((created(&record), name, entry));
    }
    list.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    for (time, name, entry) in list {
        hand!(sink(message_file(&entry, id).1));
        if seen.insert(name.clone()) {
            hand!(parts(&folder.parts.join(&name), &name, time.unwrap_or(0), sink)?);
        }
    }
    Ok(ControlFlow::Continue(()))
}

pub(super) fn message_file(entry: &Entry, session: &str) -> (String, Record) {
    match json_of(entry, Kind::Message) {
        Ok((id, body)) => {
            let created = body.pointer("/time/created").and_then(Value::as_f64).map(|ms| ms as i64);
            (id.clone(), Record::Message { id, session: session.to_owned(), created, body })
        }
        Err(bad) => (name_of(entry).to_owned(), *bad),
    }
}

fn created(record: &Record) -> Option<i64> {
    if let Record::Message { created, .. } = record { *created } else { None }
}

/// The parts of a message that was made at `near`.
pub(super) fn parts(dir: &Path, message: &str, near: i64, sink: Sink<'_>) -> Flow {
    let mut list = files::list_files(dir)?;
    list.sort_by_cached_key(|entry| identity::place(name_of(entry), near, None));
    for entry in list {
        hand!(sink(match json_of(&entry, Kind::Part) {
            Ok((id, body)) => Record::Part { id, message: message.to_owned(), body },
            Err(bad) => *bad,
        }));
    }
    Ok(ControlFlow::Continue(()))
}

/// A file that belongs to a session and is named after it.
fn owned(path: &Path, kind: Kind, session: &str) -> Record {
    let entry = Entry::Json { name: session.to_owned(), path: path.to_path_buf() };
    if kind == Kind::Diff {
        return diff_file(&entry);
    }
    match json_of(&entry, kind) {
        Ok((session, body)) if kind == Kind::Todo => Record::Todos { session, body },
        Ok((session, body)) => Record::Share { session, body },
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

fn json_of(entry: &Entry, kind: Kind) -> Result<(String, Value), Box<Record>> {
    match entry {
        Entry::Other { name } => Err(Box::new(not_json(kind, name.clone()))),
        Entry::Json { name, path } => match files::read_json(path) {
            Ok(body) => Ok((name.clone(), body)),
            Err(reason) => Err(Box::new(Record::Bad { kind, id: name.clone(), reason })),
        },
    }
}

fn name_of(entry: &Entry) -> &str {
    match entry {
        Entry::Json { name, .. } | Entry::Other { name } => name,
    }
}

fn not_json(kind: Kind, id: String) -> Record {
    Record::Bad { kind, id, reason: "not a .json file".to_owned() }
}
