//! The step that is open when its turn ends: its usage and what it changed are written with the end (R28).
//!
//! Also for a turn whose process died: its step gets its usage in the transaction that ends the turn, and what it
//! changed in the transaction that records the recovered change set.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::Number;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{
    AssistantMessage, ExtraFields, Message, MessageBody, Part, PartBody, PatchPart, StepFinishPart,
    TokenCounts,
};
use turnstone_core::time::LogCursor;
use turnstone_core::turn::TurnOutcome;

use super::turn::EndTurn;
use crate::error::Result;
use crate::read::{ChangeSetRow, PartLocation, ReadTx, find_part, load_part, parse_stored};
use crate::tx::{AppendPermission, Tx};

/// The last step of an answer.
struct LastStep {
    session: SessionId,
    message: MessageId,
    /// Where it began.
    start: PartLocation,
    /// Where its usage is, once it has ended.
    is_finished: bool,
    /// Whether the answer has steps before it.
    has_earlier: bool,
    /// What it changed, if that is written already.
    patch: Option<PartLocation>,
    /// The ids of the answer's parts.
    parts: BTreeSet<String>,
}

/// Writes usage and changes of the step that the last answer of an ending turn left open.
pub(super) fn finish_open_step(
    tx: &Tx<'_>,
    answer: &Message,
    end: &EndTurn,
    permission: AppendPermission,
) -> Result<()> {
    let MessageBody::Assistant(said) = &answer.body else { return Ok(()) };
    let Some(mut step) = LastStep::find(tx, &answer.session, &answer.id)? else { return Ok(()) };
    if step.is_finished {
        return Ok(());
    }
    let finish = PartBody::StepFinish(finish_part(said, end.outcome, step.has_earlier));
    step.put_new_part(tx, finish, permission)?;
    let read = ReadTx { conn: tx.conn, blobs: tx.blobs };
    let rows = read.change_sets().of_turn(&end.session, &end.turn)?;
    step.put_patch(tx, &rows, permission)
}

/// Adds what a recovered change set changed to the patch of its step, if its turn is over and it belongs to one.
pub(super) fn patch_recovered_step(tx: &Tx<'_>, set: &ChangeSetRow) -> Result<()> {
    let part = set.set.part.as_ref().map(|part| find_part(tx.conn, part)).transpose()?.flatten();
    let Some(part) = part else { return Ok(()) };
    let message: String = tx
        .conn
        .prepare_cached("SELECT id FROM message WHERE num = ?1")?
        .query_row([part.message], |row| row.get(0))?;
    let message: MessageId = parse_stored(message)?;
    let Some(mut step) = LastStep::find(tx, &set.set.session, &message)? else { return Ok(()) };
    if !step.is_finished {
        return Ok(());
    }
    let read = ReadTx { conn: tx.conn, blobs: tx.blobs };
    let rows = read.change_sets().of_turn(&set.set.session, &set.set.turn)?;
    step.put_patch(tx, &rows, AppendPermission::Unrestricted)
}

/// What is known of the usage of a step that was cut off: what its answer says, if no step before it said so.
fn finish_part(said: &AssistantMessage, outcome: TurnOutcome, has_earlier: bool) -> StepFinishPart {
    let reason = match outcome {
        TurnOutcome::Completed => "unknown",
        TurnOutcome::Failed => "error",
        TurnOutcome::Aborted => "aborted",
        TurnOutcome::Interrupted => "interrupted",
    };
    let (cost, tokens) = match has_earlier {
        true => (Number::from(0), TokenCounts::default()),
        false => (said.cost.clone(), said.tokens.clone()),
    };
    let (reason, extra) = (reason.to_owned(), ExtraFields::new());
    StepFinishPart { reason, snapshot: None, cost, tokens, extra }
}

impl LastStep {
    /// The last step of an answer; nothing if it has none.
    fn find(tx: &Tx<'_>, session: &SessionId, message: &MessageId) -> Result<Option<Self>> {
        let (num, owner) = tx.messages().num_and_session(session, message)?;
        let mut statement = tx.conn.prepare_cached(
            "SELECT num, message, session, image, text_len, id, type FROM part
             WHERE session = ?1 AND message = ?2 ORDER BY num",
        )?;
        let mut rows = statement.query((owner, num))?;
        let (mut found, mut parts): (Option<Self>, _) = (None, BTreeSet::new());
        while let Some(row) = rows.next()? {
            let (at, kind) = (PartLocation::from_row(row)?, row.get::<_, String>(6)?);
            parts.insert(row.get(5)?);
            match (kind.as_str(), &mut found) {
                ("step-start", earlier) => {
                    let has_earlier = earlier.is_some();
                    found = Some(Self {
                        session: session.clone(),
                        message: message.clone(),
                        start: at,
                        is_finished: false,
                        has_earlier,
                        patch: None,
                        parts: BTreeSet::new(),
                    });
                }
                ("step-finish", Some(step)) => step.is_finished = true,
                ("patch", Some(step)) => step.patch = Some(at),
                _ => {}
            }
        }
        Ok(found.map(|step| Self { parts, ..step }))
    }

    /// Writes the files that the step's closed change sets changed, with those written before.
    fn put_patch(
        &mut self,
        tx: &Tx<'_>,
        rows: &[ChangeSetRow],
        permission: AppendPermission,
    ) -> Result<()> {
        let began = LogCursor(self.start.num.0);
        let is_its = |row: &&ChangeSetRow| {
            let part = row.set.part.as_ref();
            row.opened > began && part.is_none_or(|part| self.parts.contains(part.as_str()))
        };
        let rows: Vec<&ChangeSetRow> = rows.iter().filter(is_its).collect();
        let mut files: BTreeSet<String> = rows.iter().copied().flat_map(changed_files).collect();
        if files.is_empty() {
            return Ok(());
        }
        if let Some(at) = self.patch {
            let mut part = load_part(tx.conn, tx.blobs, (&self.session, &self.message), at)?;
            if let PartBody::Patch(patch) = &mut part.body {
                files.extend(std::mem::take(&mut patch.files));
                patch.files = files.into_iter().collect();
                tx.messages().put_part_with_permission(&part, permission)?;
            }
            return Ok(());
        }
        let start = load_part(tx.conn, tx.blobs, (&self.session, &self.message), self.start)?;
        let snapshot =
            if let PartBody::StepStart(start) = start.body { start.snapshot } else { None };
        // Without a tree of the step, the first capture of a call in it names what was there before.
        let Some(hash) = snapshot.or_else(|| rows.iter().find_map(|row| row.before.clone())) else {
            return Ok(());
        };
        let files = files.into_iter().collect();
        let patch = PatchPart { hash, files, extra: ExtraFields::new() };
        self.put_new_part(tx, PartBody::Patch(patch), permission)
    }

    /// Adds a part whose id sorts after those of the answer: it continues the greatest of them, because a store has no
    /// generator of ids.
    fn put_new_part(
        &mut self,
        tx: &Tx<'_>,
        body: PartBody,
        permission: AppendPermission,
    ) -> Result<()> {
        let Some(greatest) = self.parts.last().cloned() else { return Ok(()) };
        for suffix in "0123456789".chars() {
            let Ok(id) = format!("{greatest}{suffix}").parse::<PartId>() else { return Ok(()) };
            if find_part(tx.conn, &id)?.is_some() {
                continue;
            }
            self.parts.insert(id.to_string());
            let (session, message) = (self.session.clone(), self.message.clone());
            tx.messages()
                .put_part_with_permission(&Part { id, session, message, body }, permission)?;
            return Ok(());
        }
        Ok(())
    }
}

/// The files of a closed change set, absolute.
fn changed_files(row: &ChangeSetRow) -> impl Iterator<Item = String> {
    let (root, closed) = (Path::new(&row.set.root.path), row.closed.is_some());
    row.set.changes.iter().filter(move |_| closed).map(move |change| {
        let path = std::ffi::OsStr::from_bytes(change.path.as_bytes());
        root.join(path).to_string_lossy().into_owned()
    })
}
