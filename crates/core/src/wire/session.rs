//! Sessions: OpenCode's `Session.Info`.

use serde_json::{Value, json};

use super::figures::{cost_and_tokens, tokens_of};
use super::shape::{self, ShapeError};
use crate::model::{Extra, Session, Usage, UsageBase};
use crate::permission::Rule;

/// Fields of the model that OpenCode does not have.
const OURS: [&str; 3] = ["usage_base", "origin", "importedPermission"];

/// How fields begin that are kept in a session while it is made.
const PRIVATE: &str = "turnstone.";

/// Returns a session as OpenCode shows it; `usage` is the sum over its step-finish parts.
#[must_use]
pub fn session_info(session: &Session, usage: Usage) -> Value {
    let mut map = shape::fields(session);
    for key in OURS {
        map.remove(key);
    }
    let (mut cost, mut tokens) = cost_and_tokens(session, usage);
    if map.keys().any(|key| key.starts_with(PRIVATE)) {
        // It is being made: what hides it until it is whole is nobody's business.
        map.retain(|key, _| !key.starts_with(PRIVATE));
        if let Some(Value::Object(time)) = map.get_mut("time") {
            time.remove("archived");
        }
        (cost, tokens) = (0.into(), tokens_of(Usage::default()));
    }
    map.insert("cost".to_owned(), Value::Number(cost));
    map.insert("tokens".to_owned(), tokens);
    Value::Object(map)
}

/// Returns a session as an export document holds it: rules an import brought are among its rules again.
///
/// They come first, so that rules of the session's own, which are newer, still decide.
#[must_use]
pub fn session_export(session: &Session, usage: Usage) -> Value {
    let mut shown = session_info(session, usage);
    if !session.imported_permission.is_empty() {
        let own = session.permission.iter().flatten();
        let rules: Vec<&Rule> = session.imported_permission.iter().chain(own).collect();
        shown["permission"] = json!(rules);
    }
    shown
}

/// Reads a session in OpenCode's form.
///
/// Its cost and tokens become the [`UsageBase`], counted from nothing: whoever reads the parts too sets
/// `counted`. A session without them gets no base.
///
/// # Errors
///
/// A field of the wrong type, a missing field, an id that is none.
pub fn parse_session(value: Value) -> Result<Session, ShapeError> {
    const WHAT: &str = "session";
    let mut map = shape::object(WHAT, value)?;
    // What only our own ledger says of a session, no document and no client does.
    map.retain(|key, _| !OURS.contains(&key.as_str()) && !key.starts_with(PRIVATE));
    let base = take_base(&mut map)?;
    let mut session: Session = shape::read(WHAT, Value::Object(map))?;
    session.usage_base = base;
    Ok(session)
}

fn take_base(map: &mut Extra) -> Result<Option<UsageBase>, ShapeError> {
    let mut take = |key: &str| map.remove(key).filter(|value| !value.is_null());
    let (cost, tokens) = (take("cost"), take("tokens"));
    if cost.is_none() && tokens.is_none() {
        return Ok(None);
    }
    Ok(Some(UsageBase {
        cost: cost.map(|value| shape::read("session cost", value)).transpose()?,
        tokens: tokens.map(|value| shape::read("session token count", value)).transpose()?,
        counted: Usage::default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_document_sets_what_only_the_ledger_says() -> Result<(), ShapeError> {
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
    fn imported_rules_are_exported_and_not_shown() -> Result<(), ShapeError> {
        let rule = |action: &str| json!({ "permission": "bash", "pattern": "*", "action": action });
        let mut session = parse_session(json!({ "id": "ses_a", "slug": "s", "projectID": "p",
            "directory": "/w", "title": "t", "version": "1", "time": { "created": 1, "updated": 2 },
            "permission": [rule("deny")] }))?;
        session.imported_permission = shape::read("rules", json!([rule("allow")]))?;
        let shown = session_info(&session, Usage::default());
        assert_eq!(shown["permission"], json!([rule("deny")]));
        assert_eq!(shown.get("importedPermission"), None);
        let exported = session_export(&session, Usage::default());
        assert_eq!(exported["permission"], json!([rule("allow"), rule("deny")]));
        assert_eq!(exported.get("importedPermission"), None);
        Ok(())
    }
}
