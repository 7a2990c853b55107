//! Who may set the permission rules of a session.

use axum::http::StatusCode;
use turnstone_core::id::SessionId;
use turnstone_core::permission::{CallerRole, PermissionRule, RuleAction};
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;

/// True for the person, and for a named actor in a session it created.
pub(crate) fn is_in_charge(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
) -> Result<bool, ApiError> {
    match ctx.role {
        CallerRole::Person => Ok(true),
        CallerRole::Runner | CallerRole::Tool => Ok(false),
        CallerRole::Named => {
            let owner = app.engine().store().read(ctx, |r| r.sessions().actor(session))?;
            Ok(owner == ctx.actor.as_str())
        }
    }
}

/// Refuses rules by a caller who may not set them: a runner, or an actor in a session it did not
/// create. A client that creates a session may add denials to it.
///
/// # Errors
///
/// 403; no rule has changed.
pub(crate) fn check_can_set_rules(
    app: &AppState,
    ctx: &Context,
    session: Option<&SessionId>,
    rules: &[PermissionRule],
) -> Result<(), ApiError> {
    if rules.is_empty() {
        return Ok(());
    }
    let may_set = match (ctx.role, session) {
        (_, Some(id)) => is_in_charge(app, ctx, id)?,
        (CallerRole::Person | CallerRole::Named, None) => true,
        (CallerRole::Runner | CallerRole::Tool, None) => {
            rules.iter().all(|rule| rule.action == RuleAction::Deny)
        }
    };
    match may_set {
        true => Ok(()),
        false => {
            let message = "only a person sets permission rules";
            Err(ApiError::tagged(StatusCode::FORBIDDEN, "NotAllowedError", message))
        }
    }
}
