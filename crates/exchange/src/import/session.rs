//! One session of an import: its messages, parts and what else belongs to it.

use std::collections::HashMap;

use serde_json::Value;
use turnstone_core::event::EntityClass;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, MessageBody, Part, Session, Tokens, Usage, UsageBase};
use turnstone_core::wire;
use turnstone_store::StoreError;

use super::batch::{Pending, Write};
use super::local::{Local, same};
use super::run::Run;
use crate::adopt::{self, Neighbours};
use crate::kind::Kind;
use crate::report::{Outcome, printable};

const CHANGED: &str = "changed here since it was imported; kept as it is";
const REMOVED: &str = "removed here since it was imported";

/// The session that is being read.
pub(super) struct Current {
    /// Its id in the source.
    source: String,
    session: Session,
    /// Messages that were accepted, by their ids in the source.
    messages: HashMap<String, MessageId>,
    /// What happened here, if the session was here before.
    local: Option<Local>,
    near: Neighbours,
    figures: Figures,
}

/// What the messages and parts of a session add up to.
#[derive(Default)]
struct Figures {
    /// Over the step-finish parts.
    steps: Usage,
    /// Over the assistant messages.
    cost: f64,
    tokens: Usage,
    assistants: u64,
}

impl Figures {
    fn meet_message(&mut self, message: &Message) {
        if let MessageBody::Assistant(assistant) = &message.body {
            self.assistants += 1;
            self.cost += assistant.cost.as_f64().unwrap_or(0.0);
            self.tokens =
                self.tokens.plus(Usage::of_step(&serde_json::Number::from(0), &assistant.tokens));
        }
    }

    /// The base of a session: its own figures, or, where the source kept none, the sum over its
    /// assistant messages, which is what OpenCode made of such sessions itself.
    fn base(&self, own: Option<UsageBase>) -> Option<UsageBase> {
        let counted = self.steps;
        match own {
            Some(base) => Some(UsageBase { counted, ..base }),
            None if self.assistants > 0 => Some(UsageBase {
                cost: Some(number(self.cost)),
                tokens: serde_json::from_value::<Tokens>(wire::tokens_of(self.tokens)).ok(),
                counted,
            }),
            None => None,
        }
    }
}

fn number(value: f64) -> serde_json::Number {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return serde_json::Number::from(value as i64);
    }
    serde_json::Number::from_f64(value).unwrap_or_else(|| serde_json::Number::from(0))
}

impl Run<'_> {
    pub(super) fn session(
        &mut self,
        id: String,
        project: &str,
        body: Value,
    ) -> Result<(), StoreError> {
        self.current = None;
        if !self.knows_project(project)? {
            let reason = format!("project {} does not exist", printable(project));
            self.count(Kind::Session, &id, Outcome::Orphaned(reason));
            return Ok(());
        }
        let (session, notes) = match adopt::session(&id, project, body) {
            Ok(adopted) => adopted,
            Err(reason) => {
                self.count(Kind::Session, &id, Outcome::Rejected(printable(&reason)));
                return Ok(());
            }
        };
        let notes = notes.iter().map(|note| printable(&format!("session {id}: {note}")));
        self.report.notes.extend(notes);
        match self.standing(&session.id)? {
            Standing::Deleted => {
                self.count(Kind::Session, &id, Outcome::Rejected("deleted here".to_owned()));
                Ok(())
            }
            Standing::New => self.begin(id, session, None),
            Standing::Here => {
                let local = Local::read(self.store, &self.ctx, &session.id)?;
                self.begin(id, session, Some(local))
            }
        }
    }

    fn standing(&self, id: &SessionId) -> Result<Standing, StoreError> {
        self.store.read(&self.ctx, |r| {
            if r.find_session(id)?.is_some() {
                return Ok(Standing::Here);
            }
            match r.stream_after(id, turnstone_core::time::Seq(0), 1) {
                Ok(_) => Ok(Standing::Deleted),
                Err(StoreError::NoSession(_)) => Ok(Standing::New),
                Err(error) => Err(error),
            }
        })
    }

    fn begin(
        &mut self,
        id: String,
        session: Session,
        local: Option<Local>,
    ) -> Result<(), StoreError> {
        let near = Neighbours::in_directory(&session.directory);
        let first = local.is_none().then(|| beginning(&session));
        self.current = Some(Current {
            source: id.clone(),
            session,
            messages: HashMap::new(),
            local,
            near,
            figures: Figures::default(),
        });
        match first {
            None => Ok(()),
            Some(first) => {
                let write = Write::Begin(Box::new(first));
                self.push(Pending { kind: Kind::Session, id, count: 1, fresh: true, write })
            }
        }
    }

    pub(super) fn message(
        &mut self,
        id: String,
        session: &str,
        body: (Value, Option<i64>),
    ) -> Result<(), StoreError> {
        let Some(current) = self.current.as_mut().filter(|current| current.source == session)
        else {
            return self.orphan(Kind::Message, &id, "session", session);
        };
        let (message, filled) = match adopt::message(&id, &current.session.id, body, &current.near)
        {
            Ok(adopted) => adopted,
            Err(reason) => {
                self.count(Kind::Message, &id, Outcome::Rejected(printable(&reason)));
                return Ok(());
            }
        };
        current.near.meet(&message);
        current.messages.insert(id.clone(), message.id.clone());
        current.figures.meet_message(&message);
        self.filled += u64::from(filled);
        match self.keeps_message(&message)? {
            Some(outcome) => {
                self.count(Kind::Message, &id, outcome);
                Ok(())
            }
            None => self.queue(Kind::Message, id, Write::Message(Box::new(message))),
        }
    }

    pub(super) fn part(
        &mut self,
        id: String,
        message: &str,
        body: Value,
    ) -> Result<(), StoreError> {
        let owner = self.current.as_ref().and_then(|current| {
            Some((current.session.id.clone(), current.messages.get(message)?.clone()))
        });
        let Some((session, owner)) = owner else {
            return self.orphan(Kind::Part, &id, "message", message);
        };
        let (part, filled) = match adopt::part(&id, (&session, &owner), body) {
            Ok(adopted) => adopted,
            Err(reason) => {
                self.count(Kind::Part, &id, Outcome::Rejected(printable(&reason)));
                return Ok(());
            }
        };
        if let Some(current) = &mut self.current {
            current.figures.steps = current.figures.steps.plus(wire::usage_of(&part.body));
        }
        self.filled += u64::from(filled);
        match self.keeps_part(&part)? {
            Some(outcome) => {
                self.count(Kind::Part, &id, outcome);
                Ok(())
            }
            None => self.queue(Kind::Part, id, Write::Part(Box::new(part))),
        }
    }

    /// What is to be said of a message that somebody changed or removed here.
    fn keeps_message(&self, message: &Message) -> Result<Option<Outcome>, StoreError> {
        let Some(local) = self.local() else {
            return Ok(None);
        };
        if local.is_removed(message.id.as_str()) {
            return Ok(Some(Outcome::Rejected(REMOVED.to_owned())));
        }
        if !local.is_changed(message.id.as_str()) {
            return Ok(None);
        }
        let here = self.store.read(&self.ctx, |r| r.get_message(&message.session, &message.id))?;
        Ok(Some(kept(same(&here.message.body, &message.body))))
    }

    /// What is to be said of a part that somebody changed or removed here.
    fn keeps_part(&self, part: &Part) -> Result<Option<Outcome>, StoreError> {
        let Some(local) = self.local() else {
            return Ok(None);
        };
        let id: &PartId = &part.id;
        if local.is_removed(id.as_str()) || local.is_removed(part.message.as_str()) {
            return Ok(Some(Outcome::Rejected(REMOVED.to_owned())));
        }
        if !local.is_changed(id.as_str()) {
            return Ok(None);
        }
        let here = self.store.read(&self.ctx, |r| r.get_part(&part.session, id))?;
        Ok(Some(kept(same(&here.body, &part.body))))
    }

    pub(super) fn todos(&mut self, session: &str, body: Value) -> Result<(), StoreError> {
        let found = body.as_array().map_or(1, Vec::len);
        let Some(own) = self.owner(session) else {
            for index in 0..found {
                let id = format!("{session}#{index}");
                self.orphan(Kind::Todo, &id, "session", session)?;
            }
            return Ok(());
        };
        let (todos, skipped) = match adopt::todos(session, body) {
            Ok(adopted) => adopted,
            Err(reason) => {
                self.count(Kind::Todo, session, Outcome::Rejected(reason));
                return Ok(());
            }
        };
        for one in skipped {
            self.count(Kind::Todo, &one.id, Outcome::Rejected(printable(&one.reason)));
        }
        if todos.is_empty() {
            return Ok(());
        }
        let count = todos.len() as u64;
        if self.is_touched(EntityClass::Todo) {
            let here = self.store.read(&self.ctx, |r| r.todos(&own))?;
            let outcome = kept(same(&here, &todos));
            for _ in 0..count {
                self.count(Kind::Todo, session, outcome.clone());
            }
            return Ok(());
        }
        let id = session.to_owned();
        let write = Write::Todos(own, todos);
        self.push(Pending { kind: Kind::Todo, id, count, fresh: false, write })
    }

    pub(super) fn share(&mut self, session: String, body: Value) -> Result<(), StoreError> {
        let Some(own) = self.owner(&session) else {
            return self.orphan(Kind::Share, &session, "session", &session);
        };
        let share = match adopt::share(body) {
            Ok(share) => share,
            Err(reason) => {
                self.count(Kind::Share, &session, Outcome::Rejected(reason));
                return Ok(());
            }
        };
        if self.is_touched(EntityClass::Share) {
            let here = self.store.read(&self.ctx, |r| r.share(&own))?;
            self.count(Kind::Share, &session, kept(here.as_ref() == Some(&share)));
            return Ok(());
        }
        self.queue(Kind::Share, session, Write::Share(own, share))
    }

    pub(super) fn diff(&mut self, session: String, body: Value) -> Result<(), StoreError> {
        let Some(own) = self.owner(&session) else {
            return self.orphan(Kind::Diff, &session, "session", &session);
        };
        let diff = match adopt::diff(body) {
            Ok(diff) => diff,
            Err(reason) => {
                self.count(Kind::Diff, &session, Outcome::Rejected(printable(&reason)));
                return Ok(());
            }
        };
        if self.is_touched(EntityClass::Diff) {
            let here = self.store.read(&self.ctx, |r| r.diff(&own))?;
            self.count(Kind::Diff, &session, kept(same(&here, &diff)));
            return Ok(());
        }
        self.queue(Kind::Diff, session, Write::Diff(own, diff))
    }

    /// Writes the session's last image, with its exact figures.
    pub(super) fn end(&mut self) -> Result<(), StoreError> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let Current { source, mut session, local, figures, .. } = current;
        session.usage_base = figures.base(session.usage_base.take());
        let touched = local.as_ref().is_some_and(|local| local.is_touched(EntityClass::Session));
        if touched {
            let equal = self.store.read(&self.ctx, |r| {
                let here =
                    wire::session_info(&r.get_session(&session.id)?, r.session_usage(&session.id)?);
                Ok(here == wire::session_info(&session, figures.steps))
            })?;
            self.count(Kind::Session, &source, kept(equal));
            return Ok(());
        }
        let fresh = local.is_none();
        let write = Write::Session(Box::new(session));
        self.push(Pending { kind: Kind::Session, id: source, count: 1, fresh, write })
    }

    fn local(&self) -> Option<&Local> {
        self.current.as_ref()?.local.as_ref()
    }

    fn is_touched(&self, class: EntityClass) -> bool {
        self.local().is_some_and(|local| local.is_touched(class))
    }

    /// The id here of a session that is being read.
    fn owner(&self, session: &str) -> Option<SessionId> {
        let current = self.current.as_ref().filter(|current| current.source == session)?;
        Some(current.session.id.clone())
    }

    fn queue(&mut self, kind: Kind, id: String, write: Write) -> Result<(), StoreError> {
        self.push(Pending { kind, id, count: 1, fresh: false, write })
    }

    fn orphan(&mut self, kind: Kind, id: &str, what: &str, of: &str) -> Result<(), StoreError> {
        let reason = format!("{what} {} was not imported", printable(of));
        self.count(kind, id, Outcome::Orphaned(reason));
        Ok(())
    }
}

/// Whether a session is here.
enum Standing {
    New,
    Here,
    Deleted,
}

/// The session as it begins: without what its history brings.
fn beginning(session: &Session) -> Session {
    Session { usage_base: None, revert: None, share: None, summary: None, ..session.clone() }
}

fn kept(same: bool) -> Outcome {
    if same { Outcome::Unchanged } else { Outcome::Rejected(CHANGED.to_owned()) }
}
