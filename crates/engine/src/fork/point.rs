//! The files of a point: the capture that holds all of them, or none (R42).

use turnstone_core::change::Evidence;
use turnstone_core::id::MessageId;
use turnstone_core::model::{PartBody, Session};
use turnstone_core::operation::Head;
use turnstone_core::time::Cursor;
use turnstone_snapshot::{Capture, Scope, Vault, VaultError};
use turnstone_store::{ChangeRow, Context};

use crate::engine::Engine;
use crate::error::Result;
use crate::line::Line;

/// A capture of all files, by its tree or its id, and when in the log it was made.
struct Taken {
    at: Cursor,
    name: String,
}

impl Engine {
    /// The capture of all files as they were before a message; nothing if there is none.
    ///
    /// Of the turn that the message begins, the first capture before it changed anything; otherwise
    /// the last one before, if the session changed nothing since.
    pub(super) fn files_before(
        &self,
        ctx: &Context,
        session: &Session,
        vault: &Vault,
        message: &MessageId,
    ) -> Result<Option<(Capture, Cursor)>> {
        let (line, rows) =
            self.store.read(ctx, |r| Ok((Line::read(r, &session.id)?, r.changes(&session.id)?)))?;
        let head = Head { message: message.clone(), part: None };
        let cut = line.moment(line.spot(Some(&head)));
        let store = vault.place().id.as_str();
        let rows: Vec<ChangeRow> =
            rows.into_iter().filter(|row| row.set.root.store == store).collect();
        let mut all = self.taken_in_steps(ctx, session, &line)?;
        all.extend(rows.iter().filter(|row| row.set.evidence != Evidence::Named).flat_map(|row| {
            let before = row.before.clone().map(|name| Taken { at: row.opened, name });
            let closed = row.closed.zip(row.after.clone());
            before.into_iter().chain(closed.map(|(at, name)| Taken { at, name }))
        }));
        all.sort_by_key(|taken| taken.at);
        let changed = |row: &&ChangeRow| row.closed.is_none() || !row.set.changes.is_empty();
        let after = all.iter().filter(|it| it.at > cut).take_while(|it| {
            let opened = |row: &ChangeRow| row.opened > cut && row.opened < it.at;
            !rows.iter().filter(changed).any(opened)
        });
        let before = all.iter().rev().filter(|it| it.at <= cut).take_while(|it| {
            let closed = |row: &ChangeRow| row.closed.is_none_or(|at| at > it.at && at <= cut);
            !rows.iter().filter(|row| row.opened <= cut).filter(changed).any(closed)
        });
        for taken in after.chain(before) {
            if let Some(capture) = whole(vault, &taken.name)? {
                return Ok(Some((capture, cut)));
            }
        }
        Ok(None)
    }

    /// What steps say of the worktree when they began and ended.
    fn taken_in_steps(&self, ctx: &Context, session: &Session, line: &Line) -> Result<Vec<Taken>> {
        let is_step = |kind: &str| matches!(kind, "step-start" | "step-finish");
        let mut found = Vec::new();
        for message in &line.outline {
            for ((id, kind), at) in message.parts.iter().zip(&message.appeared) {
                if !is_step(kind) {
                    continue;
                }
                let part = self.store.read(ctx, |r| r.get_part(&session.id, id))?;
                #[expect(clippy::wildcard_enum_match_arm, reason = "only steps name a tree")]
                let name = match part.body {
                    PartBody::StepStart(step) => step.snapshot,
                    PartBody::StepFinish(step) => step.snapshot,
                    _ => None,
                };
                found.extend(name.map(|name| Taken { at: *at, name }));
            }
        }
        Ok(found)
    }
}

/// The capture of that name, if it is still there and looked at everything.
fn whole(vault: &Vault, name: &str) -> Result<Option<Capture>> {
    match vault.find_capture(name) {
        Ok(capture) => Ok(Some(capture).filter(|it| it.coverage.scope == Scope::Whole)),
        Err(VaultError::NoCapture { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
