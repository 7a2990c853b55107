//! Export documents: `{info, messages: [{info, parts}]}`, one or many, from a file or a stream.
//!
//! Messages and parts keep the order of the document. A document names its project and not more, so the
//! project is made from what the session says, unless it is here already. Documents are walked over
//! element by element; `info` comes before `messages` and `parts`, as every program writes them.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::{Map, Value};
use tempfile::TempDir;

use super::document_walk::{DocumentEvent, WalkStop, walk_documents};
use super::source_record::{KindTotals, RecordSink, SourceReader, SourceRecord};
use super::{SourceError, json_files, source_limits};
use crate::record_kind::RecordKind;

type DocumentFlow = Result<ControlFlow<()>, SourceError>;

/// Elements that are no objects, in a file that is still read: a few are a mistake, many are no export.
const MAX_NON_OBJECTS: u64 = 10_000;

/// A file of export documents.
pub(super) struct ExportDocuments {
    /// What people named.
    name: PathBuf,
    /// Where the bytes are.
    path: PathBuf,
    /// Keeps what came from a stream until it has been read.
    _spool: Option<TempDir>,
    totals: KindTotals,
    /// How many documents are whole, and why the next one is not.
    first_broken: Option<(usize, String)>,
}

impl ExportDocuments {
    /// Looks through the documents at `path` once.
    pub(super) fn open(
        name: PathBuf,
        path: PathBuf,
        spool: Option<TempDir>,
    ) -> Result<Self, SourceError> {
        let (totals, broken) = (KindTotals::new(), None);
        let mut documents = Self { name, path, _spool: spool, totals, first_broken: broken };
        documents.survey()?;
        Ok(documents)
    }

    fn walk(
        &self,
        visit: &mut dyn FnMut(DocumentEvent<'_>) -> ControlFlow<()>,
    ) -> Result<(), DocumentError> {
        let name = |source| SourceError::Unreadable { path: self.name.clone(), source };
        let file =
            json_files::open_regular(&self.path, json_files::LinkPolicy::Follow).map_err(name)?;
        let file = file.ok_or_else(|| SourceError::Missing { path: self.name.clone() })?;
        match walk_documents(file, visit) {
            Ok(()) | Err(WalkStop::Cancelled) => Ok(()),
            Err(WalkStop::Invalid { reason }) => Err(DocumentError::Broken(reason)),
            Err(WalkStop::TooLarge { place }) => {
                let (path, limit) = (self.name.clone(), source_limits::MAX_ELEMENT);
                Err(SourceError::TooLarge { path, place, limit }.into())
            }
        }
    }

    /// Counts what is there; the first document must be one.
    fn survey(&mut self) -> Result<(), SourceError> {
        let mut look = DocumentSurvey::default();
        let walked = self.walk(&mut |event| look.count_event(event));
        let refuse = |reason: String| SourceError::NotAnExport { path: self.name.clone(), reason };
        match walked {
            Err(DocumentError::Source(error)) => return Err(error),
            Err(DocumentError::Broken(reason)) if look.documents == 0 => {
                return Err(refuse(reason));
            }
            Err(DocumentError::Broken(reason)) => {
                self.first_broken = Some((look.documents, reason))
            }
            Ok(()) => {}
        }
        if look.is_not_export {
            return Err(refuse("no object with info and messages".to_owned()));
        }
        if look.non_objects > MAX_NON_OBJECTS {
            let reason = format!("more than {MAX_NON_OBJECTS} of its elements are not objects");
            return Err(refuse(reason));
        }
        if look.totals.is_empty() {
            return Err(SourceError::Empty { path: self.name.clone() });
        }
        self.totals = look.totals;
        Ok(())
    }
}

/// Why a walk over a file failed.
enum DocumentError {
    Source(SourceError),
    Broken(String),
}

impl From<SourceError> for DocumentError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl SourceReader for ExportDocuments {
    fn describe(&self) -> String {
        format!("OpenCode export {}", self.name.display())
    }

    fn totals(&self) -> KindTotals {
        self.totals.clone()
    }

    fn read(&mut self, sink: RecordSink<'_>) -> DocumentFlow {
        let whole = self.first_broken.as_ref().map_or(usize::MAX, |(whole, _)| *whole);
        let mut records = RecordEmitter {
            sink,
            whole,
            document: 0,
            state: DocumentState::BeforeInfo,
            is_over: false,
        };
        let walked = self.walk(&mut |event| records.handle_event(event));
        let reason = match (walked, &self.first_broken) {
            (Err(DocumentError::Source(error)), _) => return Err(error),
            // The file has changed since it was looked at.
            (Err(DocumentError::Broken(reason)), _) => reason,
            (Ok(()), _) if records.is_over => return Ok(ControlFlow::Break(())),
            (Ok(()), Some((_, reason))) => reason.clone(),
            (Ok(()), None) => return Ok(ControlFlow::Continue(())),
        };
        let id = format!("document {}", records.document.saturating_add(1));
        let reason = format!("{reason}; what follows was not read");
        Ok((records.sink)(SourceRecord::Unreadable { kind: RecordKind::Session, id, reason }))
    }
}

/// Counts documents, messages and parts.
#[derive(Default)]
struct DocumentSurvey {
    totals: KindTotals,
    /// Documents met that are whole, and what is there instead of one.
    documents: usize,
    has_info: bool,
    has_messages: bool,
    /// Elements that are no objects, and so neither sessions, messages nor parts.
    non_objects: u64,
    /// True if what comes first is not a document.
    is_not_export: bool,
}

impl DocumentSurvey {
    fn count_event(&mut self, event: DocumentEvent<'_>) -> ControlFlow<()> {
        match event {
            DocumentEvent::Document => {
                (self.has_info, self.has_messages) = (false, false);
                self.add(RecordKind::Session);
            }
            DocumentEvent::Info(raw) => self.has_info |= raw.starts_with('{'),
            DocumentEvent::Messages(_) => self.has_messages = true,
            DocumentEvent::Message(is_object) => {
                self.add(RecordKind::Message);
                self.non_objects += u64::from(!is_object);
            }
            DocumentEvent::Part(raw) => {
                self.add(RecordKind::Part);
                self.non_objects += u64::from(!raw.starts_with('{'));
            }
            DocumentEvent::MessageInfo(_) | DocumentEvent::MessageEnd | DocumentEvent::Todos(_) => {
            }
            DocumentEvent::NotADocument => {
                self.add(RecordKind::Session);
                self.non_objects += 1;
                self.is_not_export |= self.documents == 0;
                self.documents += 1;
            }
            DocumentEvent::End => {
                self.is_not_export |= self.documents == 0 && !(self.has_info && self.has_messages);
                self.documents += 1;
            }
        }
        match self.is_not_export || self.non_objects > MAX_NON_OBJECTS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn add(&mut self, kind: RecordKind) {
        *self.totals.entry(kind).or_default() += 1;
    }
}

/// Turns what a walk meets into records.
struct RecordEmitter<'s> {
    sink: RecordSink<'s>,
    /// How many documents are handed on.
    whole: usize,
    document: usize,
    state: DocumentState,
    is_over: bool,
}

/// How far the present document is read.
enum DocumentState {
    /// Its session has not come.
    BeforeInfo,
    /// It cannot be used; the report says why.
    Rejected,
    /// Its session has been handed on.
    InSession(SessionCursor),
}

/// A session whose messages are read.
struct SessionCursor {
    session: String,
    /// True if the document has a list of messages.
    has_list: bool,
    /// The number of the present message, and of its present part.
    message: usize,
    part: usize,
    /// The id of the present message, once it was handed on.
    owner: Option<String>,
    /// True once the present message was handed on or reported.
    is_reported: bool,
}

impl SessionCursor {
    fn name(&self) -> String {
        format!("{} message {}", self.session, self.message)
    }
}

impl RecordEmitter<'_> {
    fn handle_event(&mut self, event: DocumentEvent<'_>) -> ControlFlow<()> {
        let begins = matches!(event, DocumentEvent::Document | DocumentEvent::NotADocument);
        if begins && self.document == self.whole {
            return ControlFlow::Break(());
        }
        let flow = self.emit_records(event);
        self.is_over = flow.is_break();
        flow
    }

    fn emit_records(&mut self, event: DocumentEvent<'_>) -> ControlFlow<()> {
        match event {
            DocumentEvent::Document => {
                self.document += 1;
                self.state = DocumentState::BeforeInfo;
                ControlFlow::Continue(())
            }
            DocumentEvent::NotADocument => {
                self.document += 1;
                self.reject_document("not an object")
            }
            DocumentEvent::Info(raw) => self.info(raw),
            DocumentEvent::Messages(is_list) => self.messages(is_list),
            DocumentEvent::Message(is_object) => self.message(is_object),
            DocumentEvent::MessageInfo(raw) => self.message_info(raw),
            DocumentEvent::Part(raw) => self.part(raw),
            DocumentEvent::MessageEnd => self.message_end("no info"),
            DocumentEvent::Todos(raw) => self.todos(raw),
            DocumentEvent::End => self.end(),
        }
    }

    fn reject_document(&mut self, reason: &str) -> ControlFlow<()> {
        self.state = DocumentState::Rejected;
        let id = format!("document {}", self.document);
        (self.sink)(SourceRecord::Unreadable {
            kind: RecordKind::Session,
            id,
            reason: reason.to_owned(),
        })
    }

    fn info(&mut self, raw: &str) -> ControlFlow<()> {
        let DocumentState::BeforeInfo = self.state else {
            return ControlFlow::Continue(());
        };
        let info = match source_limits::parse_json(raw) {
            Ok(Value::Object(info)) => info,
            Ok(_) => return self.reject_document("no info"),
            Err(reason) => return self.reject_document(&reason),
        };
        let Some(id) = nonempty_text(&info, "id") else {
            return self.reject_document("the session has no id");
        };
        let session = id.clone();
        self.state = DocumentState::InSession(SessionCursor {
            session,
            has_list: false,
            message: 0,
            part: 0,
            owner: None,
            is_reported: false,
        });
        let project = nonempty_text(&info, "projectID").unwrap_or_else(|| "global".to_owned());
        let worktree = worktree_of(&project, &info);
        (self.sink)(SourceRecord::ImpliedProject { project: project.clone(), worktree })?;
        (self.sink)(SourceRecord::Session { id, project, body: Value::Object(info) })
    }

    fn messages(&mut self, is_list: bool) -> ControlFlow<()> {
        match &mut self.state {
            DocumentState::InSession(inside) => inside.has_list |= is_list,
            DocumentState::BeforeInfo => {
                return self.reject_document("its messages come before its info");
            }
            DocumentState::Rejected => {}
        }
        ControlFlow::Continue(())
    }

    fn message(&mut self, is_object: bool) -> ControlFlow<()> {
        let DocumentState::InSession(inside) = &mut self.state else {
            return ControlFlow::Continue(());
        };
        inside.message += 1;
        (inside.part, inside.owner, inside.is_reported) = (0, None, !is_object);
        if is_object {
            return ControlFlow::Continue(());
        }
        (self.sink)(unreadable(RecordKind::Message, inside.name(), "not an object"))
    }

    fn message_info(&mut self, raw: &str) -> ControlFlow<()> {
        let DocumentState::InSession(inside) = &mut self.state else {
            return ControlFlow::Continue(());
        };
        if std::mem::replace(&mut inside.is_reported, true) {
            return ControlFlow::Continue(());
        }
        let info = match source_limits::parse_json(raw) {
            Ok(Value::Object(info)) => info,
            Ok(_) => return (self.sink)(unreadable(RecordKind::Message, inside.name(), "no info")),
            Err(reason) => {
                return (self.sink)(unreadable(RecordKind::Message, inside.name(), &reason));
            }
        };
        let Some(id) = nonempty_text(&info, "id") else {
            return (self.sink)(unreadable(
                RecordKind::Message,
                inside.name(),
                "the message has no id",
            ));
        };
        inside.owner = Some(id.clone());
        let created = info.get("time").and_then(|time| time.get("created")?.as_i64());
        let (session, body) = (inside.session.clone(), Value::Object(info));
        (self.sink)(SourceRecord::Message { id, session, created, body })
    }

    /// Reports a message of which no info came, once.
    fn message_end(&mut self, reason: &str) -> ControlFlow<()> {
        let DocumentState::InSession(inside) = &mut self.state else {
            return ControlFlow::Continue(());
        };
        if std::mem::replace(&mut inside.is_reported, true) {
            return ControlFlow::Continue(());
        }
        (self.sink)(unreadable(RecordKind::Message, inside.name(), reason))
    }

    fn part(&mut self, raw: &str) -> ControlFlow<()> {
        self.message_end("no info before its parts")?;
        let DocumentState::InSession(inside) = &mut self.state else {
            return ControlFlow::Continue(());
        };
        inside.part += 1;
        // A message that was not handed on has no id; its parts belong to nothing that was imported.
        let message = inside.owner.clone().unwrap_or_else(|| inside.name());
        let name = format!("{message} part {}", inside.part);
        let body = match source_limits::parse_json(raw) {
            Ok(body) => body,
            Err(reason) => return (self.sink)(unreadable(RecordKind::Part, name, &reason)),
        };
        let record = match body.as_object().and_then(|part| nonempty_text(part, "id")) {
            Some(id) => SourceRecord::Part { id, message, body },
            None => unreadable(RecordKind::Part, name, "the part has no id"),
        };
        (self.sink)(record)
    }

    fn todos(&mut self, raw: &str) -> ControlFlow<()> {
        let DocumentState::InSession(SessionCursor { session, .. }) = &self.state else {
            return ControlFlow::Continue(());
        };
        match source_limits::parse_json(raw) {
            Ok(body @ Value::Array(_)) => {
                (self.sink)(SourceRecord::Todos { session: session.clone(), body })
            }
            Ok(_) => ControlFlow::Continue(()),
            Err(reason) => (self.sink)(unreadable(RecordKind::Todo, session.clone(), &reason)),
        }
    }

    fn end(&mut self) -> ControlFlow<()> {
        match std::mem::replace(&mut self.state, DocumentState::Rejected) {
            DocumentState::Rejected => ControlFlow::Continue(()),
            DocumentState::BeforeInfo => self.reject_document("no info"),
            DocumentState::InSession(SessionCursor { session, has_list, .. }) => {
                if !has_list {
                    let note = format!("session {session}: the document has no list of messages");
                    (self.sink)(SourceRecord::Note(note))?;
                }
                (self.sink)(SourceRecord::EndOfSession)
            }
        }
    }
}

fn unreadable(kind: RecordKind, id: String, reason: &str) -> SourceRecord {
    SourceRecord::Unreadable { kind, id, reason: reason.to_owned() }
}

/// The root of the worktree: the directory without the path inside it.
fn worktree_of(project: &str, info: &Map<String, Value>) -> String {
    if project == "global" {
        return "/".to_owned();
    }
    let directory = nonempty_text(info, "directory").unwrap_or_default();
    let inside = nonempty_text(info, "path").map(|path| format!("/{path}"));
    inside.and_then(|path| directory.strip_suffix(&path).map(str::to_owned)).unwrap_or(directory)
}

fn nonempty_text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
