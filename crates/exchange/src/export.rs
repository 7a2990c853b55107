//! A session of ours as OpenCode's export document.

use serde_json::Value;
use turnstone_core::id::SessionId;
use turnstone_core::wire::{self, Document, Entry};
use turnstone_store::{Context, Store, StoreError};

use crate::sanitize::sanitized;

const PAGE: usize = 200;

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
pub fn export(
    store: &Store,
    ctx: &Context,
    session: &SessionId,
    sanitize: bool,
) -> Result<Value, ExportError> {
    let document = store.read(ctx, |r| {
        let mut pages = Vec::new();
        let mut before: Option<String> = None;
        loop {
            let page = r.list_messages(session, before.as_deref(), PAGE)?;
            pages.push(page.items);
            before = page.before;
            if before.is_none() {
                break;
            }
        }
        let entry =
            |with: turnstone_store::WithParts| Entry { message: with.message, parts: with.parts };
        let messages = pages.into_iter().rev().flatten().map(entry).collect();
        let document = Document { session: r.get_session(session)?, messages };
        Ok(wire::document(&document, r.session_usage(session)?))
    })?;
    Ok(if sanitize { sanitized(document) } else { document })
}
