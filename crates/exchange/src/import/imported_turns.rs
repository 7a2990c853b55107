//! The turns of a session that is being imported: each begins with a user message and ends with its last part.

use serde_json::Number;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::{Message, MessageBody, MessageFailure, MessageFailureKind, PartBody};
use turnstone_core::time::EpochMillis;
use turnstone_core::tool_state;
use turnstone_core::turn::TurnOutcome;
use turnstone_store::{ImportedTurnEnd, StoreError};

use super::import_run::ImportRun;
use super::session_import::{CurrentSession, local_changes, push_uncounted};
use super::write_batch::ImportWrite;

const INTERRUPTED_REASON: &str =
    "Tool execution was interrupted: it ran when its session was imported";

/// What is known of the turns while the messages are read.
#[derive(Default)]
pub(super) struct ImportedTurns {
    /// The turn of the newest user message, as far as it is known.
    open: Option<ImportedTurnEnd>,
    /// When the newest message was made, or was complete.
    newest: EpochMillis,
}

impl ImportedTurns {
    /// Takes in a message; returns the turn that ends before it and the one that begins with it.
    fn add_message(&mut self, message: &Message) -> (Option<ImportedTurnEnd>, Option<TurnId>) {
        match &message.body {
            MessageBody::User(user) => {
                self.newest = to_millis(&user.time.created);
                let Some(turn) = turn_id(message) else { return (self.open.take(), None) };
                let (outcome, ended) = (TurnOutcome::Interrupted, self.newest);
                let begun = ImportedTurnEnd { turn: turn.clone(), outcome, ended };
                (self.open.replace(begun), Some(turn))
            }
            MessageBody::Assistant(assistant) => {
                let completed = assistant.time.completed.as_ref();
                self.newest = to_millis(completed.unwrap_or(&assistant.time.created));
                if let Some(open) = &mut self.open {
                    open.ended = self.newest;
                    open.outcome = outcome_of(assistant.error.as_ref(), completed.is_some());
                }
                (None, None)
            }
        }
    }
}

/// Records that a message begins a turn, if a user wrote it, and that the one before is over.
pub(super) fn record_message(run: &mut ImportRun<'_>, message: &Message) -> Result<(), StoreError> {
    if local_changes(run).is_some_and(super::local_changes::LocalChanges::rejects_additions) {
        return Ok(());
    }
    let Some(current) = &mut run.current else { return Ok(()) };
    let (ended, begun) = current.turns.add_message(message);
    if let Some(ended) = ended {
        push_uncounted(run, ImportWrite::EndTurn(message.session.clone(), ended))?;
    }
    match begun {
        None => Ok(()),
        Some(turn) => push_uncounted(run, ImportWrite::BeginTurn(turn, Box::new(message.clone()))),
    }
}

/// The last turn of a session that was read to its end.
pub(super) fn last_turn(current: &mut CurrentSession) -> Option<(SessionId, ImportedTurnEnd)> {
    let ended = current.turns.open.take()?;
    Some((current.session.id.clone(), ended))
}

/// Ends a call that still runs in the source: nothing here can end it.
pub(super) fn end_open_call(current: &CurrentSession, body: &mut PartBody) {
    let PartBody::Tool(call) = body else { return };
    // The same source gives the same part, whenever it is imported.
    if let Some(ended) =
        tool_state::interrupt_call(&call.state, INTERRUPTED_REASON, current.turns.newest)
    {
        call.state = ended;
    }
}

/// The turn of a message has the body of the message's id.
fn turn_id(message: &Message) -> Option<TurnId> {
    let body = message.id.as_str().strip_prefix("msg_")?;
    format!("trn_{body}").parse().ok()
}

fn outcome_of(error: Option<&MessageFailure>, is_complete: bool) -> TurnOutcome {
    match error {
        Some(error) if error.name == MessageFailureKind::MessageAbortedError => {
            TurnOutcome::Aborted
        }
        Some(_) => TurnOutcome::Failed,
        None if is_complete => TurnOutcome::Completed,
        None => TurnOutcome::Interrupted,
    }
}

/// When a message was made.
pub(super) fn created_at(message: &Message) -> EpochMillis {
    match &message.body {
        MessageBody::User(user) => to_millis(&user.time.created),
        MessageBody::Assistant(assistant) => to_millis(&assistant.time.created),
    }
}

fn to_millis(time: &Number) -> EpochMillis {
    EpochMillis(time.as_i64().unwrap_or_else(|| time.as_f64().unwrap_or(0.0) as i64))
}
