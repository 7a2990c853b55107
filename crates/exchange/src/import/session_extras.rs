//! To-dos, share and diff of a session that is being imported.

use serde_json::Value;
use turnstone_core::event::EntityClass;
use turnstone_store::StoreError;

use super::import_run::ImportRun;
use super::local_changes::is_same_json;
use super::session_import::kept_outcome;
use super::write_batch::{ImportWrite, QueuedWrite};
use crate::conversion;
use crate::import_report::{RecordOutcome, to_printable};
use crate::record_kind::RecordKind;

impl ImportRun<'_> {
    pub(super) fn import_todos(&mut self, session: &str, body: Value) -> Result<(), StoreError> {
        let found = body.as_array().map_or(1, Vec::len);
        let Some(own) = self.session_id_of(session) else {
            for index in 0..found {
                let id = format!("{session}#{index}");
                self.record_orphan(RecordKind::Todo, &id, "session", session)?;
            }
            return Ok(());
        };
        let (todos, skipped) = match conversion::convert_todos(session, body) {
            Ok(adopted) => adopted,
            Err(reason) => {
                self.record_outcome(RecordKind::Todo, session, RecordOutcome::Rejected(reason));
                return Ok(());
            }
        };
        for one in skipped {
            self.record_outcome(
                RecordKind::Todo,
                &one.id,
                RecordOutcome::Rejected(to_printable(&one.reason)),
            );
        }
        if todos.is_empty() {
            return Ok(());
        }
        let count = todos.len() as u64;
        if self.is_changed_here(EntityClass::Todo) {
            let here = self.store.read(&self.ctx, |r| r.sessions().todos(&own))?;
            let outcome = kept_outcome(is_same_json(&here, &todos));
            for _ in 0..count {
                self.record_outcome(RecordKind::Todo, session, outcome.clone());
            }
            return Ok(());
        }
        let id = session.to_owned();
        let write = ImportWrite::Todos(own, todos);
        self.push(QueuedWrite { kind: RecordKind::Todo, id, count, fresh: false, write })
    }

    pub(super) fn import_share(&mut self, session: String, body: Value) -> Result<(), StoreError> {
        let Some(own) = self.session_id_of(&session) else {
            return self.record_orphan(RecordKind::Share, &session, "session", &session);
        };
        let share = match conversion::convert_share(body) {
            Ok(share) => share,
            Err(reason) => {
                self.record_outcome(RecordKind::Share, &session, RecordOutcome::Rejected(reason));
                return Ok(());
            }
        };
        if self.is_changed_here(EntityClass::Share) {
            let here = self.store.read(&self.ctx, |r| r.shares().find(&own))?;
            self.record_outcome(
                RecordKind::Share,
                &session,
                kept_outcome(here.as_ref() == Some(&share)),
            );
            return Ok(());
        }
        self.push_write(RecordKind::Share, session, ImportWrite::Share(own, share))
    }

    pub(super) fn import_diff(&mut self, session: String, body: Value) -> Result<(), StoreError> {
        let Some(own) = self.session_id_of(&session) else {
            return self.record_orphan(RecordKind::Diff, &session, "session", &session);
        };
        let diff = match conversion::convert_diff(body) {
            Ok(diff) => diff,
            Err(reason) => {
                self.record_outcome(
                    RecordKind::Diff,
                    &session,
                    RecordOutcome::Rejected(to_printable(&reason)),
                );
                return Ok(());
            }
        };
        if self.is_changed_here(EntityClass::Diff) {
            let here = self.store.read(&self.ctx, |r| r.sessions().diff(&own))?;
            self.record_outcome(
                RecordKind::Diff,
                &session,
                kept_outcome(is_same_json(&here, &diff)),
            );
            return Ok(());
        }
        self.push_write(RecordKind::Diff, session, ImportWrite::Diff(own, diff))
    }
}
