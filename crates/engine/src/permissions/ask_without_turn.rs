//! Requests outside of a turn, by a client that drives a session without one.

use turnstone_core::id::{PermissionId, SessionId};
use turnstone_core::model::PermissionAsk;
use turnstone_core::permission::PermissionVerdict;
use turnstone_store::Context;

use super::ask::PermissionOutcome;
use super::gate::GateDecision;
use super::rules::RuleScope;
use crate::error::Result;
use crate::permissions::Permissions;

impl Permissions {
    /// Asks whether something may be done in a session: the rules first, then a person.
    ///
    /// `agent` is the agent whose rules count, if it is not the session's. `id` names the request, if the caller has a name for it: asking again under it asks no one
    /// twice and returns the answer. The request is open until it is answered or a turn of the
    /// session ends.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Conflict`] if the name is that of another request; or the
    /// database refused: then it may not be done.
    pub fn ask_without_turn(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: Option<PermissionId>,
        ask: &PermissionAsk,
        agent: Option<&str>,
    ) -> Result<(PermissionId, PermissionOutcome)> {
        let id = match id {
            Some(id) => id,
            None => self.id_generator.new_permission_id(ctx.now)?,
        };
        let ask = &self.path_origin(ctx, session)?.with_real_names(ask)?;
        let rules = self.rules.resolve(ctx, RuleScope::Session { session, agent })?;
        let asked = match rules.with_real_prefixes()?.decide(ask) {
            PermissionVerdict::Allowed => PermissionOutcome::Allowed,
            PermissionVerdict::Denied { rules } => PermissionOutcome::Denied(rules),
            PermissionVerdict::Ask => {
                match self.gates.ask_or_find_answer(ctx, session, &id, ask)? {
                    GateDecision::Allowed | GateDecision::Granted => PermissionOutcome::Allowed,
                    GateDecision::Pending(id) => PermissionOutcome::Pending(id),
                    GateDecision::Denied(_) | GateDecision::Rejected => {
                        PermissionOutcome::Denied(Vec::new())
                    }
                }
            }
        };
        Ok((id, asked))
    }
}
