//! One session of an import: its messages, parts and what else belongs to it.

use serde_json::{Number, Value};
use turnstone_core::event::EntityClass;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{
    ImportedUsage, Message, MessageBody, Part, Session, SessionUsage, TokenCounts,
};
use turnstone_core::permission::{PermissionRule, RuleAction};
use turnstone_core::time::EpochMillis;
use turnstone_core::wire;
use turnstone_store::{StoreError, Tx};

use super::import_run::ImportRun;
use super::imported_turns::{self, ImportedTurns};
use super::local_changes::{LocalChanges, is_same_json};
use super::project_import;
use super::rule_trust::{self, RuleTrust, merge_session_rules, move_tools_to_imported};
use super::write_batch::{ImportWrite, QueuedWrite};
use crate::conversion::{self, PrecedingMessages};
use crate::import_report::{RecordOutcome, to_printable};
use crate::record_kind::RecordKind;

const CHANGED_REASON: &str = "changed here since it was imported; kept as it is";
const REMOVED_REASON: &str = "removed here since it was imported";
const CLOSED_REASON: &str = "its session was made or continued here; an import adds nothing to it";

/// The session that is being read.
pub(super) struct CurrentSession {
    /// Its id in the source.
    source: String,
    pub(super) session: Session,
    /// Its rules in the source that are not in effect here.
    fresh_rules: Vec<PermissionRule>,
    /// The newest message that was accepted, by its id in the source: its parts follow it.
    newest: Option<(String, MessageId)>,
    /// What happened here, if the session was here before.
    local: Option<LocalChanges>,
    preceding: PrecedingMessages,
    figures: SessionFigures,
    pub(super) turns: ImportedTurns,
}

/// What the messages and parts of a session add up to.
#[derive(Default)]
struct SessionFigures {
    /// Over the step-finish parts.
    steps: SessionUsage,
    /// Over the assistant messages.
    cost: f64,
    tokens: SessionUsage,
    assistants: u64,
}

impl SessionFigures {
    fn add_message(&mut self, message: &Message) {
        if let MessageBody::Assistant(assistant) = &message.body {
            self.assistants += 1;
            self.cost += assistant.cost.as_f64().unwrap_or(0.0);
            self.tokens = self
                .tokens
                .plus(SessionUsage::from_step(&serde_json::Number::from(0), &assistant.tokens));
        }
    }

    /// The base of a session: its own figures, or, where the source kept none, the sum over its
    /// assistant messages, which is what OpenCode made of such sessions itself.
    fn usage_base(&self, own: Option<ImportedUsage>) -> Option<ImportedUsage> {
        let counted = self.steps;
        match own {
            Some(base) => Some(ImportedUsage { counted, ..base }),
            None if self.assistants > 0 => Some(ImportedUsage {
                cost: Some(to_json_number(self.cost)),
                tokens: serde_json::from_value::<TokenCounts>(wire::tokens_info(self.tokens)).ok(),
                counted,
            }),
            None => None,
        }
    }
}

fn to_json_number(value: f64) -> serde_json::Number {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return serde_json::Number::from(value as i64);
    }
    serde_json::Number::from_f64(value).unwrap_or_else(|| serde_json::Number::from(0))
}

pub(super) fn import_session(
    run: &mut ImportRun<'_>,
    id: String,
    project: &str,
    body: Value,
) -> Result<(), StoreError> {
    run.current = None;
    let Some(home) = project_import::existing_project_id(run, project)? else {
        let reason = format!("project {} does not exist", to_printable(project));
        run.record_outcome(RecordKind::Session, &id, RecordOutcome::Orphaned(reason));
        return Ok(());
    };
    let (mut session, notes) = match conversion::convert_session(&id, project, body) {
        Ok(adopted) => adopted,
        Err(reason) => {
            run.record_outcome(
                RecordKind::Session,
                &id,
                RecordOutcome::Rejected(to_printable(&reason)),
            );
            return Ok(());
        }
    };
    for note in notes {
        run.report.add_note(&format!("session {id}: {note}"));
    }
    session.project = home;
    match session_presence(run, &session.id)? {
        SessionPresence::Deleted => {
            run.record_outcome(
                RecordKind::Session,
                &id,
                RecordOutcome::Rejected("deleted here".to_owned()),
            );
            Ok(())
        }
        SessionPresence::New => {
            project_import::assign_session(run, &mut session)?;
            begin_session(run, id, session, None)
        }
        SessionPresence::Here => {
            let local = LocalChanges::read(run.store, &run.ctx, &session.id)?;
            begin_session(run, id, session, Some(local))
        }
    }
}

fn session_presence(run: &ImportRun<'_>, id: &SessionId) -> Result<SessionPresence, StoreError> {
    run.store.read(&run.ctx, |r| {
        if r.sessions().find(id)?.is_some() {
            return Ok(SessionPresence::Here);
        }
        match r.log().stream_after(id, turnstone_core::time::SessionSeq(0), 1) {
            Ok(_) => Ok(SessionPresence::Deleted),
            Err(StoreError::NoSession(_)) => Ok(SessionPresence::New),
            Err(error) => Err(error),
        }
    })
}

fn begin_session(
    run: &mut ImportRun<'_>,
    id: String,
    mut session: Session,
    local: Option<LocalChanges>,
) -> Result<(), StoreError> {
    let here = match local {
        Some(_) => Some(run.store.read(&run.ctx, |r| r.sessions().get(&session.id))?),
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
    if limit_time(&mut session, here.as_ref(), run.ctx.now) {
        run.report.add_note(&format!("session {id}: its times were in the future"));
    }
    let fresh_rules = merge_session_rules(&mut session, here.as_ref(), run.trust);
    rule_trust::carried_rules(run).add_rules(&format!("session {id}"), &fresh_rules);
    let near = PrecedingMessages::in_directory(&session.directory);
    let first = local.is_none().then(|| initial_session(&session));
    run.current = Some(CurrentSession {
        source: id.clone(),
        session,
        fresh_rules,
        newest: None,
        local,
        preceding: near,
        figures: SessionFigures::default(),
        turns: ImportedTurns::default(),
    });
    match first {
        None => Ok(()),
        Some(first) => {
            let write = ImportWrite::CreateSession(Box::new(first));
            run.push(QueuedWrite { kind: RecordKind::Session, id, count: 1, fresh: true, write })
        }
    }
}

pub(super) fn import_message(
    run: &mut ImportRun<'_>,
    id: String,
    session: &str,
    body: (Value, Option<i64>),
) -> Result<(), StoreError> {
    let Some(current) = run.current.as_mut().filter(|current| current.source == session) else {
        return record_orphan(run, RecordKind::Message, &id, "session", session);
    };
    let (mut message, filled) =
        match conversion::convert_message(&id, &current.session.id, body, &current.preceding) {
            Ok(adopted) => adopted,
            Err(reason) => {
                run.record_outcome(
                    RecordKind::Message,
                    &id,
                    RecordOutcome::Rejected(to_printable(&reason)),
                );
                return Ok(());
            }
        };
    current.preceding.record(&message);
    current.newest = Some((id.clone(), message.id.clone()));
    current.figures.add_message(&message);
    run.completed_count += u64::from(filled);
    make_tools_inert(run, &id, &mut message)?;
    match local_message_outcome(run, &message)? {
        Some(outcome) => {
            run.record_outcome(RecordKind::Message, &id, outcome);
            Ok(())
        }
        None => {
            imported_turns::record_message(run, &message)?;
            push_write(run, RecordKind::Message, id, ImportWrite::Message(Box::new(message)))
        }
    }
}

pub(super) fn import_part(
    run: &mut ImportRun<'_>,
    id: String,
    message: &str,
    body: Value,
) -> Result<(), StoreError> {
    let owner = run.current.as_ref().and_then(|current| {
        let (_, owner) = current.newest.as_ref().filter(|(id, _)| id == message)?;
        Some((current.session.id.clone(), owner.clone()))
    });
    let Some((session, owner)) = owner else {
        return record_orphan(run, RecordKind::Part, &id, "message", message);
    };
    let (mut part, filled) = match conversion::convert_part(&id, (&session, &owner), body) {
        Ok(adopted) => adopted,
        Err(reason) => {
            run.record_outcome(
                RecordKind::Part,
                &id,
                RecordOutcome::Rejected(to_printable(&reason)),
            );
            return Ok(());
        }
    };
    if let Some(current) = &mut run.current {
        current.figures.steps = current.figures.steps.plus(wire::part_usage(&part.body));
        imported_turns::end_open_call(current, &mut part.body);
    }
    run.completed_count += u64::from(filled);
    match local_part_outcome(run, &part)? {
        Some(outcome) => {
            run.record_outcome(RecordKind::Part, &id, outcome);
            Ok(())
        }
        None => push_write(run, RecordKind::Part, id, ImportWrite::Part(Box::new(part))),
    }
}

/// Sets the tools aside that a prompt switches on or off, and lists them.
fn make_tools_inert(
    run: &mut ImportRun<'_>,
    id: &str,
    message: &mut Message,
) -> Result<(), StoreError> {
    let tools = match &message.body {
        MessageBody::User(user) => user.tools.iter().flatten(),
        MessageBody::Assistant(_) => return Ok(()),
    };
    let rule = |(tool, is_on): (&String, &Value)| {
        let action = if is_on == &Value::Bool(true) { RuleAction::Allow } else { RuleAction::Deny };
        PermissionRule::new(tool, "*", action)
    };
    let rules: Vec<PermissionRule> = tools.map(rule).collect();
    if rules.is_empty() {
        return Ok(());
    }
    let here = match local_changes(run) {
        Some(_) => find_message(run, message)?,
        None => None,
    };
    let here = here.as_ref().map(|here| &here.body);
    let is_listed = match run.trust {
        RuleTrust::Inert => move_tools_to_imported(&mut message.body, here) > 0,
        RuleTrust::Trusted => here.is_none_or(|here| *here != message.body),
    };
    if is_listed {
        rule_trust::carried_rules(run).add_rules(&format!("message {id}"), &rules);
    }
    Ok(())
}

fn find_message(run: &ImportRun<'_>, message: &Message) -> Result<Option<Message>, StoreError> {
    let found = run.store.read(&run.ctx, |r| r.messages().get(&message.session, &message.id));
    match found {
        Ok(found) => Ok(Some(found.message)),
        Err(StoreError::NoMessage { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The report on a message that was changed or removed here, or that would be added
/// to a session that takes no additions.
fn local_message_outcome(
    run: &ImportRun<'_>,
    message: &Message,
) -> Result<Option<RecordOutcome>, StoreError> {
    let Some(local) = local_changes(run) else {
        return Ok(None);
    };
    if local.is_removed(message.id.as_str()) {
        return Ok(Some(RecordOutcome::Rejected(REMOVED_REASON.to_owned())));
    }
    if !local.is_changed(message.id.as_str()) && !local.rejects_additions() {
        return Ok(None);
    }
    Ok(match find_message(run, message)? {
        None => Some(RecordOutcome::Rejected(CLOSED_REASON.to_owned())),
        Some(_) if !local.is_changed(message.id.as_str()) => None,
        Some(here) => {
            Some(kept_outcome(wire::message_export(&here) == wire::message_export(message)))
        }
    })
}

/// The report on a part that was changed or removed here, or that would be added to a
/// session that takes no additions.
fn local_part_outcome(
    run: &ImportRun<'_>,
    part: &Part,
) -> Result<Option<RecordOutcome>, StoreError> {
    let Some(local) = local_changes(run) else {
        return Ok(None);
    };
    let id: &PartId = &part.id;
    if local.is_removed(id.as_str()) || local.is_removed(part.message.as_str()) {
        return Ok(Some(RecordOutcome::Rejected(REMOVED_REASON.to_owned())));
    }
    if !local.is_changed(id.as_str()) && !local.rejects_additions() {
        return Ok(None);
    }
    match run.store.read(&run.ctx, |r| r.messages().get_part(&part.session, id)) {
        Ok(_) if !local.is_changed(id.as_str()) => Ok(None),
        Ok(here) => Ok(Some(kept_outcome(is_same_json(&here.body, &part.body)))),
        Err(StoreError::NoPart { .. }) => {
            Ok(Some(RecordOutcome::Rejected(CLOSED_REASON.to_owned())))
        }
        Err(error) => Err(error),
    }
}

/// Writes the session's last image, with its exact figures.
pub(super) fn finish_session(run: &mut ImportRun<'_>) -> Result<(), StoreError> {
    let Some(mut current) = run.current.take() else {
        return Ok(());
    };
    if let Some((session, end)) = imported_turns::last_turn(&mut current) {
        push_uncounted(run, ImportWrite::EndTurn(session, end))?;
    }
    let CurrentSession { source, mut session, fresh_rules, local, figures, .. } = current;
    session.usage_base = figures.usage_base(session.usage_base.take());
    let touched = local.as_ref().is_some_and(|local| local.is_touched(EntityClass::Session));
    if touched {
        let equal = run.store.read(&run.ctx, |r| {
            let here = r.sessions().get(&session.id)?;
            let here = wire::session_export(&here, r.sessions().usage(&session.id)?);
            Ok(here == wire::session_export(&session, figures.steps))
        })?;
        apply_trusted_rules(run, &session.id, fresh_rules)?;
        run.report.changed_sessions.push(session.id.clone());
        run.record_outcome(RecordKind::Session, &source, kept_outcome(equal));
        return Ok(());
    }
    let fresh = local.is_none();
    run.report.sessions.push(session.id.clone());
    let write = ImportWrite::Session(Box::new(session));
    run.push(QueuedWrite { kind: RecordKind::Session, id: source, count: 1, fresh, write })
}

/// Puts rules into effect in a session that somebody changed here, and changes nothing else of it.
/// Written in the person's name: the session is theirs, and stays so.
fn apply_trusted_rules(
    run: &ImportRun<'_>,
    id: &SessionId,
    rules: Vec<PermissionRule>,
) -> Result<(), StoreError> {
    if run.trust == RuleTrust::Inert || rules.is_empty() {
        return Ok(());
    }
    let id = id.clone();
    let trust = move |tx: &Tx<'_>| {
        tx.sessions().update(&id, |session| {
            let live = session.permission.take().into_iter().flatten();
            session.permission = Some(rules.iter().cloned().chain(live).collect());
            session.imported_permission.retain(|rule| !rules.contains(rule));
            Ok(())
        })
    };
    run.store.write(&run.caller_ctx, trust).wait()?;
    Ok(())
}

pub(super) fn local_changes<'r>(run: &'r ImportRun<'_>) -> Option<&'r LocalChanges> {
    run.current.as_ref()?.local.as_ref()
}

pub(super) fn is_changed_here(run: &ImportRun<'_>, class: EntityClass) -> bool {
    local_changes(run).is_some_and(|local| local.is_touched(class))
}

/// The id here of a session that is being read.
pub(super) fn session_id_of(run: &ImportRun<'_>, session: &str) -> Option<SessionId> {
    let current = run.current.as_ref().filter(|current| current.source == session)?;
    Some(current.session.id.clone())
}

pub(super) fn push_write(
    run: &mut ImportRun<'_>,
    kind: RecordKind,
    id: String,
    write: ImportWrite,
) -> Result<(), StoreError> {
    run.push(QueuedWrite { kind, id, count: 1, fresh: false, write })
}

/// Queues a write that the report does not list.
pub(super) fn push_uncounted(
    run: &mut ImportRun<'_>,
    write: ImportWrite,
) -> Result<(), StoreError> {
    let (kind, id) = (RecordKind::Message, String::new());
    run.push(QueuedWrite { kind, id, count: 0, fresh: false, write })
}

pub(super) fn record_orphan(
    run: &mut ImportRun<'_>,
    kind: RecordKind,
    id: &str,
    what: &str,
    of: &str,
) -> Result<(), StoreError> {
    let reason = format!("{what} {} was not imported", to_printable(of));
    run.record_outcome(kind, id, RecordOutcome::Orphaned(reason));
    Ok(())
}

/// Whether a session is here.
enum SessionPresence {
    New,
    Here,
    Deleted,
}

/// Makes a session that claims to be from the future as new as this import, or as the one that is here:
/// the newest session is what people and programs find first. True if it did.
fn limit_time(session: &mut Session, here: Option<&Session>, now: EpochMillis) -> bool {
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
fn initial_session(session: &Session) -> Session {
    Session { usage_base: None, revert: None, share: None, summary: None, ..session.clone() }
}

/// The outcome for what was changed here since it was imported.
pub(super) fn kept_outcome(same: bool) -> RecordOutcome {
    if same { RecordOutcome::Unchanged } else { RecordOutcome::Rejected(CHANGED_REASON.to_owned()) }
}
