//! Asking beside a turn: whoever drives a session without a turn of its own may ask as well.

use turnstone_core::id::{PermissionId, SessionId};
use turnstone_core::model::PermissionAsk;
use turnstone_core::permission::Verdict;
use turnstone_store::Context;

use super::ask::Asked;
use super::gate::Ruling;
use super::rules::BaseRules;
use crate::engine::Engine;
use crate::error::Result;

impl Engine {
    /// Asks whether something may be done in a session: the rules first, then a person.
    ///
    /// `id` names the request, if the caller has a name for it: asking again under it asks nobody
    /// twice and tells what was answered. The request is open until it is answered or a turn of the
    /// session ends.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Conflict`] if the name is that of another request; or the
    /// ledger refused: then it may not be done.
    pub fn ask_beside(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: Option<PermissionId>,
        ask: &PermissionAsk,
        base: &BaseRules,
    ) -> Result<(PermissionId, Asked)> {
        let id = match id {
            Some(id) => id,
            None => self.mint.permission(ctx.now)?,
        };
        let asked = match self.rules(ctx, session, base)?.decide(ask) {
            Verdict::Allowed => Asked::Allowed,
            Verdict::Denied { rules } => Asked::Denied(rules),
            Verdict::Ask => match self.ask_gate(ctx, session, &id, ask)? {
                Ruling::Allowed => Asked::Allowed,
                Ruling::Pending(id) => Asked::Pending(id),
                Ruling::Denied(_) | Ruling::Rejected => Asked::Denied(Vec::new()),
            },
        };
        Ok((id, asked))
    }
}
