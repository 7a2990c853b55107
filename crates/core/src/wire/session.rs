//! Sessions: OpenCode's `Session.Info`.

use serde_json::Value;

use super::figures::{cost_and_tokens, tokens_of};
use super::shape::{self, ShapeError};
use crate::model::{Extra, Session, Usage, UsageBase};

/// Fields of the model that OpenCode does not have.
const OURS: [&str; 2] = ["usage_base", "origin"];

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
    for key in OURS {
        map.remove(key);
    }
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
