//! One session of an import: its messages, parts and what else belongs to it.

use serde_json::{Number, Value};
use turnstone_core::event::EntityClass;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, MessageBody, Part, Session, Tokens, Usage, UsageBase};
use turnstone_core::permission::{Action, Rule};
use turnstone_core::time::Millis;
use turnstone_core::wire;
use turnstone_store::{StoreError, Tx};

use super::batch::{Pending, Write};
use super::local::{Local, same};
use super::run::Run;
use super::trust::{Trust, merge_session, set_tools_aside};
use crate::adopt::{self, Neighbours};
use crate::kind::Kind;
use crate::report::{Outcome, printable};

const CHANGED: &str = "changed here since it was imported; kept as it is";
const REMOVED: &str = "removed here since it was imported";
const CLOSED: &str = "its session was made or continued here; an import adds nothing to it";

/// The session that is being read.
pub(super) struct Current {
    /// Its id in the source.
    source: String,
    session: Session,
    /// Its rules in the source that are not in effect here.
    fresh_rules: Vec<Rule>,
    /// The newest message that was accepted, by its id in the source: its parts follow it.
    newest: Option<(String, MessageId)>,
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
        let Some(home) = self.project_here(project)? else {
            let reason = format!("project {} does not exist", printable(project));
            self.count(Kind::Session, &id, Outcome::Orphaned(reason));
            return Ok(());
        };
        let (mut session, notes) = match adopt::session(&id, project, body) {
            Ok(adopted) => adopted,
            Err(reason) => {
                self.count(Kind::Session, &id, Outcome::Rejected(printable(&reason)));
                return Ok(());
            }
        };
        for note in notes {
            self.report.note(&format!("session {id}: {note}"));
        }
        session.project = home;
        match self.standing(&session.id)? {
            Standing::Deleted => {
                self.count(Kind::Session, &id, Outcome::Rejected("deleted here".to_owned()));
                Ok(())
            }
            Standing::New => {
                self.settle_session(&mut session)?;
                self.begin(id, session, None)
            }
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
        mut session: Session,
        local: Option<Local>,
    ) -> Result<(), StoreError> {
        let here = match local {
            Some(_) => Some(self.store.read(&self.ctx, |r| r.get_session(&session.id))?),
            None => None,
        };
        if let Some(here) = &here {
            // Where a session works, and whose it is, decides what counts in it.
            session.project.clone_from(&here.project);
            session.directory.clone_from(&here.directory);
            session.path.clone_from(&here.path);
            session.parent.clone_from(&here.parent);
            session.workspace.clone_from(&here.workspace);
        }
        if limit_time(&mut session, here.as_ref(), self.ctx.now) {
            self.report.note(&format!("session {id}: its times were in the future"));
        }
        let fresh_rules = merge_session(&mut session, here.as_ref(), self.trust);
        self.carried().add_rules(&format!("session {id}"), &fresh_rules);
        let near = Neighbours::in_directory(&session.directory);
        let first = local.is_none().then(|| beginning(&session));
        self.current = Some(Current {
            source: id.clone(),
            session,
            fresh_rules,
            newest: None,
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
        let (mut message, filled) =
            match adopt::message(&id, &current.session.id, body, &current.near) {
                Ok(adopted) => adopted,
                Err(reason) => {
                    self.count(Kind::Message, &id, Outcome::Rejected(printable(&reason)));
                    return Ok(());
                }
            };
        current.near.meet(&message);
        current.newest = Some((id.clone(), message.id.clone()));
        current.figures.meet_message(&message);
        self.filled += u64::from(filled);
        self.judge_tools(&id, &mut message)?;
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
            let (_, owner) = current.newest.as_ref().filter(|(id, _)| id == message)?;
            Some((current.session.id.clone(), owner.clone()))
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

    /// Sets the tools aside that a prompt switches on or off, and lists them.
    fn judge_tools(&mut self, id: &str, message: &mut Message) -> Result<(), StoreError> {
        let tools = match &message.body {
            MessageBody::User(user) => user.tools.iter().flatten(),
            MessageBody::Assistant(_) => return Ok(()),
        };
        let rule = |(tool, is_on): (&String, &Value)| {
            let action = if is_on == &Value::Bool(true) { Action::Allow } else { Action::Deny };
            Rule::new(tool, "*", action)
        };
        let rules: Vec<Rule> = tools.map(rule).collect();
        if rules.is_empty() {
            return Ok(());
        }
        let here = match self.local() {
            Some(_) => self.find_message(message)?,
            None => None,
        };
        let here = here.as_ref().map(|here| &here.body);
        let is_listed = match self.trust {
            Trust::No => set_tools_aside(&mut message.body, here) > 0,
            Trust::Yes => here.is_none_or(|here| *here != message.body),
        };
        if is_listed {
            self.carried().add_rules(&format!("message {id}"), &rules);
        }
        Ok(())
    }

    fn find_message(&self, message: &Message) -> Result<Option<Message>, StoreError> {
        let found = self.store.read(&self.ctx, |r| r.get_message(&message.session, &message.id));
        match found {
            Ok(found) => Ok(Some(found.message)),
            Err(StoreError::NoMessage { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is to be said of a message that somebody changed or removed here, or that would be added
    /// to a session of somebody else's.
    fn keeps_message(&self, message: &Message) -> Result<Option<Outcome>, StoreError> {
        let Some(local) = self.local() else {
            return Ok(None);
        };
        if local.is_removed(message.id.as_str()) {
            return Ok(Some(Outcome::Rejected(REMOVED.to_owned())));
        }
        if !local.is_changed(message.id.as_str()) && !local.is_closed() {
            return Ok(None);
        }
        Ok(match self.find_message(message)? {
            None => Some(Outcome::Rejected(CLOSED.to_owned())),
            Some(_) if !local.is_changed(message.id.as_str()) => None,
            Some(here) => Some(kept(wire::message_export(&here) == wire::message_export(message))),
        })
    }

    /// What is to be said of a part that somebody changed or removed here, or that would be added to a
    /// session of somebody else's.
    fn keeps_part(&self, part: &Part) -> Result<Option<Outcome>, StoreError> {
        let Some(local) = self.local() else {
            return Ok(None);
        };
        let id: &PartId = &part.id;
        if local.is_removed(id.as_str()) || local.is_removed(part.message.as_str()) {
            return Ok(Some(Outcome::Rejected(REMOVED.to_owned())));
        }
        if !local.is_changed(id.as_str()) && !local.is_closed() {
            return Ok(None);
        }
        match self.store.read(&self.ctx, |r| r.get_part(&part.session, id)) {
            Ok(_) if !local.is_changed(id.as_str()) => Ok(None),
            Ok(here) => Ok(Some(kept(same(&here.body, &part.body)))),
            Err(StoreError::NoPart { .. }) => Ok(Some(Outcome::Rejected(CLOSED.to_owned()))),
            Err(error) => Err(error),
        }
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
        let Current { source, mut session, fresh_rules, local, figures, .. } = current;
        session.usage_base = figures.base(session.usage_base.take());
        let touched = local.as_ref().is_some_and(|local| local.is_touched(EntityClass::Session));
        if touched {
            let equal = self.store.read(&self.ctx, |r| {
                let here = r.get_session(&session.id)?;
                let here = wire::session_export(&here, r.session_usage(&session.id)?);
                Ok(here == wire::session_export(&session, figures.steps))
            })?;
            self.trust_rules(&session.id, fresh_rules)?;
            self.count(Kind::Session, &source, kept(equal));
            return Ok(());
        }
        let fresh = local.is_none();
        let write = Write::Session(Box::new(session));
        self.push(Pending { kind: Kind::Session, id: source, count: 1, fresh, write })
    }

    /// Puts rules into effect in a session that somebody changed here, and changes nothing else of it.
    /// Written in the person's name: the session is theirs, and stays so.
    fn trust_rules(&self, id: &SessionId, rules: Vec<Rule>) -> Result<(), StoreError> {
        if self.trust == Trust::No || rules.is_empty() {
            return Ok(());
        }
        let id = id.clone();
        let trust = move |tx: &Tx<'_>| {
            tx.update_session(&id, |session| {
                let live = session.permission.take().into_iter().flatten();
                session.permission = Some(rules.iter().cloned().chain(live).collect());
                session.imported_permission.retain(|rule| !rules.contains(rule));
                Ok(())
            })
        };
        self.store.write(&self.person, trust).wait()?;
        Ok(())
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

/// Makes a session that claims to be from the future as new as this import, or as the one that is here:
/// the newest session is what people and programs find first. True if it did.
fn limit_time(session: &mut Session, here: Option<&Session>, now: Millis) -> bool {
    let is_future = |time: &Number| time.as_f64().is_none_or(|time| time > now.0 as f64);
    let is_negative = |time: &Number| time.as_f64().is_some_and(|time| time < 0.0);
    let limit = |time: &mut Number, here: Option<&Number>| {
        let is_late = is_future(time);
        if is_late {
            let known = here.filter(|here| !is_future(here));
            *time = known.cloned().unwrap_or_else(|| Number::from(now.0));
        }
        if is_negative(time) {
            *time = Number::from(0);
        }
        is_late
    };
    let created = limit(&mut session.time.created, here.map(|here| &here.time.created));
    let updated = limit(&mut session.time.updated, here.map(|here| &here.time.updated));
    created || updated
}

/// The session as it begins: without what its history brings.
fn beginning(session: &Session) -> Session {
    Session { usage_base: None, revert: None, share: None, summary: None, ..session.clone() }
}

fn kept(same: bool) -> Outcome {
    if same { Outcome::Unchanged } else { Outcome::Rejected(CHANGED.to_owned()) }
}
