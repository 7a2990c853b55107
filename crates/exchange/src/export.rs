//! A session of ours as OpenCode's export document.

use serde_json::Value;
use turnstone_core::id::SessionId;
use turnstone_core::model::Session;
use turnstone_core::wire::{self, DocumentMessage, ExportDocument};
use turnstone_store::{Context, ReadTx, Store, StoreError};

use crate::redaction::redact_document;

const PAGE_SIZE: usize = 200;

/// Why a session cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no such session.
    #[error("session {0} does not exist")]
    NoSession(SessionId),
    /// The store could not be read.
    #[error("could not read the session")]
    Store(#[source] StoreError),
}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        if let StoreError::NoSession(id) = error { Self::NoSession(id) } else { Self::Store(error) }
    }
}

/// Returns the session as `opencode export` would print it: `{info, messages: [{info, parts}]}`.
///
/// With `sanitize`, texts, paths, inputs and outputs are replaced by `[redacted:<kind>:<id>]`, as
/// `opencode export --sanitize` does; the structure stays. All of it is of one moment.
///
/// # Errors
///
/// [`ExportError::NoSession`] if there is no such session.
pub fn export_session(
    store: &Store,
    ctx: &Context,
    session: &SessionId,
    sanitize: bool,
) -> Result<Value, ExportError> {
    let document = store.read(ctx, |r| {
        let mut pages = Vec::new();
        let mut before: Option<String> = None;
        loop {
            let page = r.messages().list(session, before.as_deref(), PAGE_SIZE)?;
            pages.push(page.items);
            before = page.before;
            if before.is_none() {
                break;
            }
        }
        let entry = |with: turnstone_store::MessageWithParts| DocumentMessage {
            message: with.message,
            parts: with.parts,
        };
        let messages = pages.into_iter().rev().flatten().map(entry).collect();
        let mut info = r.sessions().get(session)?;
        add_imported_diffs(r, &mut info)?;
        let document = ExportDocument { session: info, messages };
        Ok(wire::export_document(&document, r.sessions().usage(session)?))
    })?;
    Ok(if sanitize { redact_document(document) } else { document })
}

/// Puts the diff that an import took out of a session back into its summary, where older versions of OpenCode
/// kept it. What turns of here changed is derived from captures and not exported.
fn add_imported_diffs(r: &ReadTx<'_>, session: &mut Session) -> Result<(), StoreError> {
    let Some(summary) = session.summary.as_mut().filter(|summary| summary.diffs.is_none()) else {
        return Ok(());
    };
    if r.turns().list(&session.id)?.iter().all(|turn| turn.imported) {
        summary.diffs = r.sessions().diff(&session.id)?.filter(|diffs| !diffs.is_empty());
    }
    Ok(())
}
