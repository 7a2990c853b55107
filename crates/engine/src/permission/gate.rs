//! Gates: operations that take work back, remove worktrees or run a project's start command (R37).

use turnstone_core::id::{PermissionId, SessionId};
use turnstone_core::model::{Extra, PermissionAsk, PermissionReply, RequestId, RequestState};
use turnstone_core::permission::{Action, Caller, Explanation, Gate, pass_gate};
use turnstone_store::{Context, Tx};

use super::ask::request;
use super::rules::BaseRules;
use crate::engine::Engine;
use crate::error::Result;

/// Whether a gated operation may be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// It may.
    Allowed,
    /// It may not; the refusal is recorded.
    Denied(Explanation),
    /// A person is asked; until the answer nothing is done.
    Pending(PermissionId),
}

impl Engine {
    /// Judges an operation before it changes anything.
    ///
    /// # Errors
    ///
    /// The ledger refused: then the operation must not be done.
    pub fn gate(
        &self,
        ctx: &Context,
        session: &SessionId,
        (gate, pattern): (Gate, &str),
        caller: Caller,
        base: &BaseRules,
    ) -> Result<Ruling> {
        let rules = self.rules(ctx, session, base)?;
        let decided = pass_gate(gate, pattern, caller, &rules.layers());
        if decided.action == Action::Allow {
            return Ok(Ruling::Allowed);
        }
        let ask = PermissionAsk {
            permission: gate.as_str().to_owned(),
            patterns: vec![pattern.to_owned()],
            metadata: Extra::new(),
            always: vec![pattern.to_owned()],
            tool: None,
            extra: Extra::new(),
        };
        let id = self.mint.permission(ctx.now)?;
        let request = request(&id, session, &ask);
        let is_denied = decided.action == Action::Deny;
        let write = move |tx: &Tx<'_>| {
            tx.ask(&request)?;
            if is_denied {
                let message = Some("denied by a rule".to_owned());
                let reply = PermissionReply::Reject;
                tx.resolve(&request.id, &RequestState::Replied { reply, message })?;
            }
            Ok(())
        };
        self.store.write(ctx, write).wait()?;
        Ok(if is_denied { Ruling::Denied(decided) } else { Ruling::Pending(id) })
    }

    /// What became of a gate that was asked about: nothing while nobody has answered.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NotFound`] for an unknown request.
    pub fn gate_answer(&self, ctx: &Context, id: &PermissionId) -> Result<Option<bool>> {
        let id = RequestId::Permission(id.clone());
        let state = self.store.read(ctx, |r| r.request_state(id.as_str()))?;
        Ok(match state {
            RequestState::Pending => None,
            RequestState::Replied { reply, .. } => Some(reply != PermissionReply::Reject),
            RequestState::Answered { .. } | RequestState::Rejected | RequestState::Withdrawn => {
                Some(false)
            }
        })
    }
}
