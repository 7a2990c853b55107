//! Export documents: `{info, messages: [{info, parts}]}`, one or many, from a file or a stream.
//!
//! Messages and parts keep the order of the document. A document names its project and not more, so the
//! project is made from what the session says, unless it is here already. Documents are walked over
//! element by element; `info` comes before `messages` and `parts`, as every program writes them.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::{Map, Value};
use tempfile::TempDir;

use super::record::{Reader, Record, Sink, Totals};
use super::walk::{Event, Stop, walk};
use super::{SourceError, files, limit};
use crate::kind::Kind;

type Flow = Result<ControlFlow<()>, SourceError>;

/// Elements that are no objects, in a file that is still read: a few are a mistake, many are no export.
const MAX_STRANGERS: u64 = 10_000;

/// A file of export documents.
pub(super) struct Documents {
    /// What people named.
    name: PathBuf,
    /// Where the bytes are.
    path: PathBuf,
    /// Keeps what came from a stream until it has been read.
    _spool: Option<TempDir>,
    totals: Totals,
    /// How many documents are whole, and why the next one is not.
    broken: Option<(usize, String)>,
}

impl Documents {
    /// Looks through the documents at `path` once.
    pub(super) fn open(
        name: PathBuf,
        path: PathBuf,
        spool: Option<TempDir>,
    ) -> Result<Self, SourceError> {
        let (totals, broken) = (Totals::new(), None);
        let mut documents = Self { name, path, _spool: spool, totals, broken };
        documents.look()?;
        Ok(documents)
    }

    fn walk(&self, visit: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) -> Result<(), WalkError> {
        let name = |source| SourceError::Unreadable { path: self.name.clone(), source };
        let file = files::open_regular(&self.path, files::Links::Followed).map_err(name)?;
        let file = file.ok_or_else(|| SourceError::Missing { path: self.name.clone() })?;
        match walk(file, visit) {
            Ok(()) | Err(Stop::Asked) => Ok(()),
            Err(Stop::Broken { reason }) => Err(WalkError::Broken(reason)),
            Err(Stop::TooLarge { place }) => {
                let (path, limit) = (self.name.clone(), limit::MAX_ELEMENT);
                Err(SourceError::TooLarge { path, place, limit }.into())
            }
        }
    }

    /// Counts what is there; the first document must be one.
    fn look(&mut self) -> Result<(), SourceError> {
        let mut look = Look::default();
        let walked = self.walk(&mut |event| look.meet(event));
        let refuse = |reason: String| SourceError::NotAnExport { path: self.name.clone(), reason };
        match walked {
            Err(WalkError::Source(error)) => return Err(error),
            Err(WalkError::Broken(reason)) if look.documents == 0 => return Err(refuse(reason)),
            Err(WalkError::Broken(reason)) => self.broken = Some((look.documents, reason)),
            Ok(()) => {}
        }
        if look.is_other {
            return Err(refuse("no object with info and messages".to_owned()));
        }
        if look.strangers > MAX_STRANGERS {
            let reason = format!("more than {MAX_STRANGERS} of its elements are not objects");
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
enum WalkError {
    Source(SourceError),
    Broken(String),
}

impl From<SourceError> for WalkError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
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
        let whole = self.broken.as_ref().map_or(usize::MAX, |(whole, _)| *whole);
        let mut records =
            Records { sink, whole, document: 0, state: State::Outside, is_over: false };
        let walked = self.walk(&mut |event| records.meet(event));
        let reason = match (walked, &self.broken) {
            (Err(WalkError::Source(error)), _) => return Err(error),
            // The file has changed since it was looked at.
            (Err(WalkError::Broken(reason)), _) => reason,
            (Ok(()), _) if records.is_over => return Ok(ControlFlow::Break(())),
            (Ok(()), Some((_, reason))) => reason.clone(),
            (Ok(()), None) => return Ok(ControlFlow::Continue(())),
        };
        let id = format!("document {}", records.document.saturating_add(1));
        let reason = format!("{reason}; what follows was not read");
        Ok((records.sink)(Record::Bad { kind: Kind::Session, id, reason }))
    }
}

/// Counts documents, messages and parts.
#[derive(Default)]
struct Look {
    totals: Totals,
    /// Documents met that are whole, and what is there instead of one.
    documents: usize,
    has_info: bool,
    has_messages: bool,
    /// Elements that are no objects, and so neither sessions, messages nor parts.
    strangers: u64,
    /// True if what comes first is not a document.
    is_other: bool,
}

impl Look {
    fn meet(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Document => {
                (self.has_info, self.has_messages) = (false, false);
                self.add(Kind::Session);
            }
            Event::Info(raw) => self.has_info |= raw.starts_with('{'),
            Event::Messages(_) => self.has_messages = true,
            Event::Message(is_object) => {
                self.add(Kind::Message);
                self.strangers += u64::from(!is_object);
            }
            Event::Part(raw) => {
                self.add(Kind::Part);
                self.strangers += u64::from(!raw.starts_with('{'));
            }
            Event::MessageInfo(_) | Event::MessageEnd | Event::Todos(_) => {}
            Event::NotADocument => {
                self.add(Kind::Session);
                self.strangers += 1;
                self.is_other |= self.documents == 0;
                self.documents += 1;
            }
            Event::End => {
                self.is_other |= self.documents == 0 && !(self.has_info && self.has_messages);
                self.documents += 1;
            }
        }
        match self.is_other || self.strangers > MAX_STRANGERS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn add(&mut self, kind: Kind) {
        *self.totals.entry(kind).or_default() += 1;
    }
}

/// Turns what a walk meets into records.
struct Records<'s> {
    sink: Sink<'s>,
    /// How many documents are handed on.
    whole: usize,
    document: usize,
    state: State,
    is_over: bool,
}

/// How far the present document is read.
enum State {
    /// Its session has not come.
    Outside,
    /// It cannot be used; the report says why.
    Refused,
    /// Its session has been handed on.
    Inside(Inside),
}

/// A session whose messages are read.
struct Inside {
    session: String,
    /// True if the document has a list of messages.
    has_list: bool,
    /// The number of the present message, and of its present part.
    message: usize,
    part: usize,
    /// The id of the present message, once it was handed on.
    owner: Option<String>,
    /// True once the present message was handed on or reported.
    is_told: bool,
}

impl Inside {
    fn name(&self) -> String {
        format!("{} message {}", self.session, self.message)
    }
}

impl Records<'_> {
    fn meet(&mut self, event: Event<'_>) -> ControlFlow<()> {
        let begins = matches!(event, Event::Document | Event::NotADocument);
        if begins && self.document == self.whole {
            return ControlFlow::Break(());
        }
        let flow = self.take(event);
        self.is_over = flow.is_break();
        flow
    }

    fn take(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Document => {
                self.document += 1;
                self.state = State::Outside;
                ControlFlow::Continue(())
            }
            Event::NotADocument => {
                self.document += 1;
                self.refuse("not an object")
            }
            Event::Info(raw) => self.info(raw),
            Event::Messages(is_list) => self.messages(is_list),
            Event::Message(is_object) => self.message(is_object),
            Event::MessageInfo(raw) => self.message_info(raw),
            Event::Part(raw) => self.part(raw),
            Event::MessageEnd => self.message_end("no info"),
            Event::Todos(raw) => self.todos(raw),
            Event::End => self.end(),
        }
    }

    fn refuse(&mut self, reason: &str) -> ControlFlow<()> {
        self.state = State::Refused;
        let id = format!("document {}", self.document);
        (self.sink)(Record::Bad { kind: Kind::Session, id, reason: reason.to_owned() })
    }

    fn info(&mut self, raw: &str) -> ControlFlow<()> {
        let State::Outside = self.state else {
            return ControlFlow::Continue(());
        };
        let info = match limit::parse(raw) {
            Ok(Value::Object(info)) => info,
            Ok(_) => return self.refuse("no info"),
            Err(reason) => return self.refuse(&reason),
        };
        let Some(id) = text(&info, "id") else {
            return self.refuse("the session has no id");
        };
        let session = id.clone();
        self.state = State::Inside(Inside {
            session,
            has_list: false,
            message: 0,
            part: 0,
            owner: None,
            is_told: false,
        });
        let project = text(&info, "projectID").unwrap_or_else(|| "global".to_owned());
        let worktree = worktree(&project, &info);
        (self.sink)(Record::Place { project: project.clone(), worktree })?;
        (self.sink)(Record::Session { id, project, body: Value::Object(info) })
    }

    fn messages(&mut self, is_list: bool) -> ControlFlow<()> {
        match &mut self.state {
            State::Inside(inside) => inside.has_list |= is_list,
            State::Outside => return self.refuse("its messages come before its info"),
            State::Refused => {}
        }
        ControlFlow::Continue(())
    }

    fn message(&mut self, is_object: bool) -> ControlFlow<()> {
        let State::Inside(inside) = &mut self.state else {
            return ControlFlow::Continue(());
        };
        inside.message += 1;
        (inside.part, inside.owner, inside.is_told) = (0, None, !is_object);
        if is_object {
            return ControlFlow::Continue(());
        }
        (self.sink)(bad(Kind::Message, inside.name(), "not an object"))
    }

    fn message_info(&mut self, raw: &str) -> ControlFlow<()> {
        let State::Inside(inside) = &mut self.state else {
            return ControlFlow::Continue(());
        };
        if std::mem::replace(&mut inside.is_told, true) {
            return ControlFlow::Continue(());
        }
        let info = match limit::parse(raw) {
            Ok(Value::Object(info)) => info,
            Ok(_) => return (self.sink)(bad(Kind::Message, inside.name(), "no info")),
            Err(reason) => return (self.sink)(bad(Kind::Message, inside.name(), &reason)),
        };
        let Some(id) = text(&info, "id") else {
            return (self.sink)(bad(Kind::Message, inside.name(), "the message has no id"));
        };
        inside.owner = Some(id.clone());
        let created = info.get("time").and_then(|time| time.get("created")?.as_i64());
        let (session, body) = (inside.session.clone(), Value::Object(info));
        (self.sink)(Record::Message { id, session, created, body })
    }

    /// Reports a message of which no info came, once.
    fn message_end(&mut self, reason: &str) -> ControlFlow<()> {
        let State::Inside(inside) = &mut self.state else {
            return ControlFlow::Continue(());
        };
        if std::mem::replace(&mut inside.is_told, true) {
            return ControlFlow::Continue(());
        }
        (self.sink)(bad(Kind::Message, inside.name(), reason))
    }

    fn part(&mut self, raw: &str) -> ControlFlow<()> {
        self.message_end("no info before its parts")?;
        let State::Inside(inside) = &mut self.state else {
            return ControlFlow::Continue(());
        };
        inside.part += 1;
        // A message that was not handed on has no id; its parts belong to nothing that was imported.
        let message = inside.owner.clone().unwrap_or_else(|| inside.name());
        let name = format!("{message} part {}", inside.part);
        let body = match limit::parse(raw) {
            Ok(body) => body,
            Err(reason) => return (self.sink)(bad(Kind::Part, name, &reason)),
        };
        let record = match body.as_object().and_then(|part| text(part, "id")) {
            Some(id) => Record::Part { id, message, body },
            None => bad(Kind::Part, name, "the part has no id"),
        };
        (self.sink)(record)
    }

    fn todos(&mut self, raw: &str) -> ControlFlow<()> {
        let State::Inside(Inside { session, .. }) = &self.state else {
            return ControlFlow::Continue(());
        };
        match limit::parse(raw) {
            Ok(body @ Value::Array(_)) => {
                (self.sink)(Record::Todos { session: session.clone(), body })
            }
            Ok(_) => ControlFlow::Continue(()),
            Err(reason) => (self.sink)(bad(Kind::Todo, session.clone(), &reason)),
        }
    }

    fn end(&mut self) -> ControlFlow<()> {
        match std::mem::replace(&mut self.state, State::Refused) {
            State::Refused => ControlFlow::Continue(()),
            State::Outside => self.refuse("no info"),
            State::Inside(Inside { session, has_list, .. }) => {
                if !has_list {
                    let note = format!("session {session}: the document has no list of messages");
                    (self.sink)(Record::Note(note))?;
                }
                (self.sink)(Record::End)
            }
        }
    }
}

fn bad(kind: Kind, id: String, reason: &str) -> Record {
    Record::Bad { kind, id, reason: reason.to_owned() }
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

fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
