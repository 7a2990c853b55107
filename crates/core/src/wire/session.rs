//! Sessions: OpenCode's `Session.Info`.

use serde_json::{Value, json};

use super::parsing::{self, ShapeError};
use super::usage::{cost_and_tokens, tokens_info};
use crate::model::{ExtraFields, ImportedUsage, Session, SessionUsage};
use crate::permission::PermissionRule;

/// Fields of the model that OpenCode does not have and clients do not see. No document and no client sets them.
pub(super) const HIDDEN_FIELDS: [&str; 2] = [USAGE_FIELD, "importedPermission"];

/// The field with the usage that an import brought.
pub(super) const USAGE_FIELD: &str = "usage_base";

/// A field that OpenCode does not have and clients are shown: where a fork was taken. No document and no client sets it.
const ORIGIN_FIELD: &str = "origin";

/// How fields begin that are kept in a session while it is made.
const PRIVATE_PREFIX: &str = "turnstone.";

/// Returns a session as OpenCode shows it; `usage` is the sum over its step-finish parts.
#[must_use]
pub fn session_info(session: &Session, usage: SessionUsage) -> Value {
    let mut map = parsing::to_object(session);
    for key in HIDDEN_FIELDS {
        map.remove(key);
    }
    let (mut cost, mut tokens) = cost_and_tokens(session, usage);
    if map.keys().any(|key| key.starts_with(PRIVATE_PREFIX)) {
        // Still being created: remove the private fields that hide it until it is complete.
        map.retain(|key, _| !key.starts_with(PRIVATE_PREFIX) && key != ORIGIN_FIELD);
        if let Some(Value::Object(time)) = map.get_mut("time") {
            time.remove("archived");
        }
        (cost, tokens) = (0.into(), tokens_info(SessionUsage::default()));
    }
    map.insert("cost".to_owned(), Value::Number(cost));
    map.insert("tokens".to_owned(), tokens);
    Value::Object(map)
}

/// Returns a session as an export document holds it: rules an import brought are among its rules again.
///
/// They come first, so that rules of the session's own, which are newer, still decide.
#[must_use]
pub fn session_export(session: &Session, usage: SessionUsage) -> Value {
    let mut shown = session_info(session, usage);
    if let Some(map) = shown.as_object_mut() {
        map.shift_remove(ORIGIN_FIELD);
    }
    if !session.imported_permission.is_empty() {
        let own = session.permission.iter().flatten();
        let rules: Vec<&PermissionRule> = session.imported_permission.iter().chain(own).collect();
        shown["permission"] = json!(rules);
    }
    shown
}

/// Reads a session in OpenCode's form.
///
/// Its cost and tokens become the [`ImportedUsage`], with `counted` at zero: a caller that reads the parts too
/// sets it. A session without usage gets none.
///
/// # Errors
///
/// A field of the wrong type, a missing field, an invalid id.
pub fn parse_session(value: Value) -> Result<Session, ShapeError> {
    const WHAT: &str = "session";
    let mut map = parsing::expect_object(WHAT, value)?;
    // Only our own database says this of a session, never a document or a client.
    map.retain(|key, _| {
        let is_ours = key == ORIGIN_FIELD || HIDDEN_FIELDS.contains(&key.as_str());
        !is_ours && !key.starts_with(PRIVATE_PREFIX)
    });
    let base = take_imported_usage(&mut map)?;
    let mut session: Session = parsing::parse_value(WHAT, Value::Object(map))?;
    session.usage_base = base;
    Ok(session)
}

fn take_imported_usage(map: &mut ExtraFields) -> Result<Option<ImportedUsage>, ShapeError> {
    let mut take = |key: &str| map.remove(key).filter(|value| !value.is_null());
    let (cost, tokens) = (take("cost"), take("tokens"));
    if cost.is_none() && tokens.is_none() {
        return Ok(None);
    }
    Ok(Some(ImportedUsage {
        cost: cost.map(|value| parsing::parse_value("session cost", value)).transpose()?,
        tokens: tokens
            .map(|value| parsing::parse_value("session token count", value))
            .transpose()?,
        counted: SessionUsage::default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_session_drops_private_fields() -> Result<(), ShapeError> {
        let rules = json!([{ "permission": "*", "pattern": "*", "action": "allow" }]);
        let value = json!({ "id": "ses_a", "slug": "s", "projectID": "p", "directory": "/w",
            "title": "t", "version": "1", "time": { "created": 1, "updated": 2 },
            "importedPermission": rules, "turnstone.copying": "x",
            "origin": { "sessionID": "ses_b", "seq": 1 } });
        let session = parse_session(value)?;
        assert!(session.imported_permission.is_empty() && session.origin.is_none());
        assert!(session.extra.is_empty(), "{:?}", session.extra);
        Ok(())
    }

    #[test]
    fn origin_of_a_fork_is_shown_and_not_exported() -> Result<(), ShapeError> {
        let mut session = parse_session(json!({ "id": "ses_a", "slug": "s", "projectID": "p",
            "directory": "/w", "title": "t", "version": "1", "time": { "created": 1, "updated": 2 } }))?;
        let origin = json!({ "sessionID": "ses_b", "messageID": "msg_c", "seq": 4 });
        session.origin = parsing::parse_value("origin", origin.clone())?;
        assert_eq!(session_info(&session, SessionUsage::default())["origin"], origin);
        assert_eq!(session_export(&session, SessionUsage::default()).get("origin"), None);
        Ok(())
    }

    #[test]
    fn imported_rules_are_exported_but_not_in_info() -> Result<(), ShapeError> {
        let rule = |action: &str| json!({ "permission": "bash", "pattern": "*", "action": action });
        let mut session = parse_session(json!({ "id": "ses_a", "slug": "s", "projectID": "p",
            "directory": "/w", "title": "t", "version": "1", "time": { "created": 1, "updated": 2 },
            "permission": [rule("deny")] }))?;
        session.imported_permission = parsing::parse_value("rules", json!([rule("allow")]))?;
        let shown = session_info(&session, SessionUsage::default());
        assert_eq!(shown["permission"], json!([rule("deny")]));
        assert_eq!(shown.get("importedPermission"), None);
        let exported = session_export(&session, SessionUsage::default());
        assert_eq!(exported["permission"], json!([rule("allow"), rule("deny")]));
        assert_eq!(exported.get("importedPermission"), None);
        Ok(())
    }
}
