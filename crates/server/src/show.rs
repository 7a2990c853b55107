//! The model in OpenCode's shapes, with what is derived for it (R21).

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::wire;
use turnstone_store::{Context, Reader, SessionRow, WithParts};

use crate::app::App;
use crate::error::ApiError;

/// A message with its parts.
pub(crate) fn with_parts(entry: &WithParts) -> Value {
    let parts: Vec<Value> = entry.parts.iter().map(wire::part_info).collect();
    json!({ "info": wire::message_info(&entry.message), "parts": parts })
}

impl App {
    /// A session as clients see it: usage summed up, `revert` computed from its head.
    pub(crate) fn show_session(&self, ctx: &Context, id: &SessionId) -> Result<Value, ApiError> {
        let store = self.engine().store();
        let (mut session, usage, is_back) = store.read(ctx, |r| {
            let session = r.get_session(id)?;
            let is_back = r.head(id)?.is_some();
            Ok((session, r.session_usage(id)?, is_back))
        })?;
        if is_back {
            session.revert = self.engine().revert_view(ctx, id)?;
        }
        Ok(wire::session_info(&session, usage))
    }

    /// Sessions as clients see them in a list.
    pub(crate) fn show_sessions(
        &self,
        ctx: &Context,
        read: impl FnOnce(&Reader<'_>) -> turnstone_store::Result<Vec<SessionRow>>,
    ) -> Result<Vec<Value>, ApiError> {
        let (rows, back) =
            self.engine().store().read(ctx, |r| Ok((read(r)?, r.sessions_back()?)))?;
        let mut shown = Vec::with_capacity(rows.len());
        for SessionRow { mut session, usage } in rows {
            if back.contains(&session.id) {
                session.revert = self.engine().revert_view(ctx, &session.id)?;
            }
            shown.push(wire::session_info(&session, usage));
        }
        Ok(shown)
    }
}
