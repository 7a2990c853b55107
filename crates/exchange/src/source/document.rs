//! Export documents: `{info, messages: [{info, parts}]}`, one or many, from a file or a stream.
//!
//! Messages and parts keep the order of the document. A document names its project and not more, so the
//! project is made from what the session says, unless it is here already.

use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::SourceError;
use super::record::{Reader, Record, Sink, Totals, hand};
use crate::kind::Kind;

type Flow = Result<ControlFlow<()>, SourceError>;

/// A file of export documents.
pub(super) struct Documents {
    /// What people named.
    name: PathBuf,
    /// Where the bytes are.
    path: PathBuf,
    /// Keeps what came from a stream until it has been read.
    _spool: Option<TempDir>,
    totals: Totals,
}

impl Documents {
    /// Looks through the documents at `path` once.
    pub(super) fn open(
        name: PathBuf,
        path: PathBuf,
        spool: Option<TempDir>,
    ) -> Result<Self, SourceError> {
        let mut documents = Self { name, path, _spool: spool, totals: Totals::new() };
        documents.totals = documents.look()?;
        Ok(documents)
    }

    fn refuse(&self, reason: String) -> SourceError {
        SourceError::NotAnExport { path: self.name.clone(), reason }
    }

    fn values(
        &self,
    ) -> Result<impl Iterator<Item = serde_json::Result<Value>> + use<>, SourceError> {
        let path: &Path = &self.path;
        let unreadable = |source| SourceError::Unreadable { path: self.name.clone(), source };
        let file = fs::File::open(path).map_err(unreadable)?;
        Ok(serde_json::Deserializer::from_reader(BufReader::new(file)).into_iter())
    }

    /// Counts what is there; the first document must be one.
    fn look(&self) -> Result<Totals, SourceError> {
        let mut totals = Totals::new();
        let mut add = |kind, count: usize| *totals.entry(kind).or_default() += count as u64;
        for (index, value) in self.values()?.enumerate() {
            let value = match value {
                Ok(value) => value,
                Err(error) if index == 0 => return Err(self.refuse(error.to_string())),
                Err(_) => break,
            };
            for document in flatten(value) {
                if index == 0 && !is_document(&document) {
                    return Err(self.refuse("no object with info and messages".to_owned()));
                }
                let messages = list(&document, "messages");
                add(Kind::Session, 1);
                add(Kind::Message, messages.len());
                add(Kind::Part, messages.iter().map(|message| list(message, "parts").len()).sum());
            }
        }
        if totals.is_empty() {
            return Err(SourceError::Empty { path: self.name.clone() });
        }
        Ok(totals)
    }
}

impl Reader for Documents {
    fn describe(&self) -> String {
        format!("OpenCode export {}", self.name.display())
    }

    fn totals(&self) -> Totals {
        self.totals.clone()
    }

    fn read(&mut self, sink: Sink<'_>) -> Flow {
        for (index, value) in self.values()?.enumerate() {
            let id = format!("document {}", index + 1);
            let value = match value {
                Ok(value) => value,
                Err(error) => {
                    let reason = format!("not JSON: {error}; what follows was not read");
                    return Ok(sink(Record::Bad { kind: Kind::Session, id, reason }));
                }
            };
            for document in flatten(value) {
                hand!(one(document, &id, sink)?);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Hands on one document.
fn one(document: Value, name: &str, sink: Sink<'_>) -> Flow {
    let bad = |reason: &str| Record::Bad {
        kind: Kind::Session,
        id: name.to_owned(),
        reason: reason.to_owned(),
    };
    let Value::Object(mut document) = document else {
        return Ok(sink(bad("not an object")));
    };
    let Some(Value::Object(info)) = document.remove("info") else {
        return Ok(sink(bad("no info")));
    };
    let Some(id) = text(&info, "id") else {
        return Ok(sink(bad("the session has no id")));
    };
    let project = text(&info, "projectID").unwrap_or_else(|| "global".to_owned());
    hand!(sink(Record::Place { project: project.clone(), worktree: worktree(&project, &info) }));
    hand!(sink(Record::Session { id: id.clone(), project, body: Value::Object(info) }));
    let Some(Value::Array(messages)) = document.remove("messages") else {
        hand!(sink(Record::Note(format!("session {id}: the document has no list of messages"))));
        return Ok(sink(Record::End));
    };
    for (index, message) in messages.into_iter().enumerate() {
        hand!(entry(&id, index, message, sink)?);
    }
    if let Some(todos) = document.remove("todos").filter(Value::is_array) {
        hand!(sink(Record::Todos { session: id, body: todos }));
    }
    Ok(sink(Record::End))
}

/// Hands on one message with its parts.
fn entry(session: &str, index: usize, message: Value, sink: Sink<'_>) -> Flow {
    let name = format!("{session} message {}", index + 1);
    let bad = |kind, id: &str, reason: &str| Record::Bad {
        kind,
        id: id.to_owned(),
        reason: reason.to_owned(),
    };
    let Value::Object(mut message) = message else {
        return Ok(sink(bad(Kind::Message, &name, "not an object")));
    };
    let id = match message.remove("info") {
        Some(Value::Object(info)) => {
            let Some(id) = text(&info, "id") else {
                return Ok(sink(bad(Kind::Message, &name, "the message has no id")));
            };
            let created = info.get("time").and_then(|time| time.get("created")?.as_i64());
            let (session, body) = (session.to_owned(), Value::Object(info));
            hand!(sink(Record::Message { id: id.clone(), session, created, body }));
            id
        }
        _ => {
            hand!(sink(bad(Kind::Message, &name, "no info")));
            name
        }
    };
    let Some(Value::Array(parts)) = message.remove("parts") else {
        return Ok(ControlFlow::Continue(()));
    };
    for (index, body) in parts.into_iter().enumerate() {
        let part = body.as_object().and_then(|part| text(part, "id"));
        let record = match part {
            Some(part) => Record::Part { id: part, message: id.clone(), body },
            None => bad(Kind::Part, &format!("{id} part {}", index + 1), "the part has no id"),
        };
        hand!(sink(record));
    }
    Ok(ControlFlow::Continue(()))
}

/// The root of the worktree: the directory without the path inside it.
fn worktree(project: &str, info: &Map<String, Value>) -> String {
    if project == "global" {
        return "/".to_owned();
    }
    let directory = text(info, "directory").unwrap_or_default();
    let inside = text(info, "path").map(|path| format!("/{path}"));
    inside.and_then(|path| directory.strip_suffix(&path).map(str::to_owned)).unwrap_or(directory)
}

/// A document, or the documents of a list.
fn flatten(value: Value) -> Vec<Value> {
    if let Value::Array(list) = value { list } else { vec![value] }
}

fn is_document(value: &Value) -> bool {
    value.get("info").is_some_and(Value::is_object) && value.get("messages").is_some()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
