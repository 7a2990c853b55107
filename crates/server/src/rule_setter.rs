//! Who may set the permission rules of a session.

use axum::http::StatusCode;
use turnstone_core::id::SessionId;
use turnstone_core::permission::{Action, Role, Rule};
use turnstone_store::Context;

use crate::app::App;
use crate::error::ApiError;

impl App {
    /// Refuses rules by a caller who may not set them: a runner, or an actor in a session it did not
    /// create. Whoever makes a session may deny it something.
    ///
    /// # Errors
    ///
    /// 403; no rule has changed.
    pub(crate) fn check_rule_setter(
        &self,
        ctx: &Context,
        session: Option<&SessionId>,
        rules: &[Rule],
    ) -> Result<(), ApiError> {
        if rules.is_empty() {
            return Ok(());
        }
        let may_set = match (ctx.role, session) {
            (Role::Person, _) | (Role::Named, None) => true,
            (Role::Named, Some(id)) => {
                let owner = self.engine().store().read(ctx, |r| r.session_actor(id))?;
                owner == ctx.actor.as_str()
            }
            (Role::Runner | Role::Tool, None) => {
                rules.iter().all(|rule| rule.action == Action::Deny)
            }
            (Role::Runner | Role::Tool, Some(_)) => false,
        };
        match may_set {
            true => Ok(()),
            false => {
                let message = "only a person sets permission rules";
                Err(ApiError::tagged(StatusCode::FORBIDDEN, "NotAllowedError", message))
            }
        }
    }
}
