//! To-dos, share and diff of a session that is being imported.

use serde_json::Value;
use turnstone_core::event::EntityClass;
use turnstone_store::StoreError;

use super::import_run::ImportRun;
use super::local_changes::is_same_json;
use super::session_import::{self, kept_outcome};
use super::write_batch::{ImportWrite, QueuedWrite};
use crate::conversion;
use crate::import_report::{RecordOutcome, to_printable};
use crate::record_kind::RecordKind;

pub(super) fn import_todos(
    run: &mut ImportRun<'_>,
    session: &str,
    body: Value,
) -> Result<(), StoreError> {
    let found = body.as_array().map_or(1, Vec::len);
    let Some(own) = session_import::session_id_of(run, session) else {
        for index in 0..found {
            let id = format!("{session}#{index}");
            session_import::record_orphan(run, RecordKind::Todo, &id, "session", session)?;
        }
        return Ok(());
    };
    let (todos, skipped) = match conversion::convert_todos(session, body) {
        Ok(adopted) => adopted,
        Err(reason) => {
            run.record_outcome(RecordKind::Todo, session, RecordOutcome::Rejected(reason));
            return Ok(());
        }
    };
    for one in skipped {
        run.record_outcome(
            RecordKind::Todo,
            &one.id,
            RecordOutcome::Rejected(to_printable(&one.reason)),
        );
    }
    if todos.is_empty() {
        return Ok(());
    }
    let count = todos.len() as u64;
    if session_import::is_changed_here(run, EntityClass::Todo) {
        let here = run.store.read(&run.ctx, |r| r.sessions().todos(&own))?;
        let outcome = kept_outcome(is_same_json(&here, &todos));
        for _ in 0..count {
            run.record_outcome(RecordKind::Todo, session, outcome.clone());
        }
        return Ok(());
    }
    let id = session.to_owned();
    let write = ImportWrite::Todos(own, todos);
    run.push(QueuedWrite { kind: RecordKind::Todo, id, count, fresh: false, write })
}

pub(super) fn import_share(
    run: &mut ImportRun<'_>,
    session: String,
    body: Value,
) -> Result<(), StoreError> {
    let Some(own) = session_import::session_id_of(run, &session) else {
        return session_import::record_orphan(
            run,
            RecordKind::Share,
            &session,
            "session",
            &session,
        );
    };
    let share = match conversion::convert_share(body) {
        Ok(share) => share,
        Err(reason) => {
            run.record_outcome(RecordKind::Share, &session, RecordOutcome::Rejected(reason));
            return Ok(());
        }
    };
    if session_import::is_changed_here(run, EntityClass::Share) {
        let here = run.store.read(&run.ctx, |r| r.shares().find(&own))?;
        run.record_outcome(
            RecordKind::Share,
            &session,
            kept_outcome(here.as_ref() == Some(&share)),
        );
        return Ok(());
    }
    session_import::push_write(run, RecordKind::Share, session, ImportWrite::Share(own, share))
}

pub(super) fn import_diff(
    run: &mut ImportRun<'_>,
    session: String,
    body: Value,
) -> Result<(), StoreError> {
    let Some(own) = session_import::session_id_of(run, &session) else {
        return session_import::record_orphan(run, RecordKind::Diff, &session, "session", &session);
    };
    let diff = match conversion::convert_diff(body) {
        Ok(diff) => diff,
        Err(reason) => {
            run.record_outcome(
                RecordKind::Diff,
                &session,
                RecordOutcome::Rejected(to_printable(&reason)),
            );
            return Ok(());
        }
    };
    if session_import::is_changed_here(run, EntityClass::Diff) {
        let here = run.store.read(&run.ctx, |r| r.sessions().diff(&own))?;
        run.record_outcome(RecordKind::Diff, &session, kept_outcome(is_same_json(&here, &diff)));
        return Ok(());
    }
    session_import::push_write(run, RecordKind::Diff, session, ImportWrite::Diff(own, diff))
}
