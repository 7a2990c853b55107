//! Who asks, and under which conditions: a request's context (R43).
//!
//! A request without a token is the person who runs the server. A token makes it the runner it was given
//! to, and `x-turnstone-actor` makes it another actor: both may do less than the person, never more.

use axum::extract::FromRequestParts;
use axum::http::header::{IF_MATCH, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use turnstone_core::permission::CallerRole;
use turnstone_core::time::{LogCursor, SessionSeq};
use turnstone_store::{Actor, Context};

use crate::app::AppState;
use crate::error::ApiError;
use crate::idempotency::IdempotentRequest;
use crate::runner_registry::{ModelRunner, find_runner_by_token};

/// The longest name of a client that is kept.
const MAX_HEADER_CHARS: usize = 128;

/// The context of a request: actor, client, request id, idempotency key, expected number.
///
/// A repeat of a request that was cut off half way is refused here: what it did is done, and what it
/// answered is unknown. Handlers that can find out ask for [`RetryAwareContext`] instead.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext(pub(crate) Context);

/// The same, with the first event of an earlier try that never answered.
#[derive(Clone, Debug)]
pub(crate) struct RetryAwareContext(pub(crate) Context, pub(crate) Option<LogCursor>);

/// A digest of method, path, query and body of a request that a person may have to allow.
#[derive(Clone, Debug)]
pub(crate) struct RequestDigest(pub(crate) String);

impl RequestContext {
    /// The context the headers of a request ask for.
    pub(crate) fn from_headers(headers: &HeaderMap, app: &AppState) -> Result<Self, ApiError> {
        let (actor, role) = match authenticate_runner(headers, app)? {
            // A name that it also sends changes nothing.
            Some(runner) => (runner.actor(), CallerRole::Runner),
            None => resolve_role(parse_actor(headers)?, &app.settings().actor),
        };
        let mut ctx = Context::new(actor, app.now()).with_role(role);
        ctx.client = client_name(headers);
        ctx.request = short_header(headers, "x-request-id");
        ctx.expected_seq = parse_if_match(headers)?;
        Ok(Self(ctx))
    }
}

impl FromRequestParts<AppState> for RequestContext {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let RetryAwareContext(ctx, began) =
            RetryAwareContext::from_request_parts(parts, app).await?;
        match began {
            None => Ok(Self(ctx)),
            Some(at) => {
                let message = "a request with this Idempotency-Key was cut off before it answered; \
                               look at what it did before you use another key";
                Err(ApiError::tagged(StatusCode::CONFLICT, "CutOffError", message)
                    .with_field("cursor", at.0))
            }
        }
    }
}

impl FromRequestParts<AppState> for RetryAwareContext {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let RequestContext(mut ctx) = RequestContext::from_headers(&parts.headers, app)?;
        let known = parts.extensions.get::<IdempotentRequest>();
        ctx.idempotency_key = known.map(|known| known.key.clone());
        ctx.request_digest = parts.extensions.get::<RequestDigest>().map(|it| it.0.clone());
        let began = known.and_then(|known| known.first_event);
        // What the first try relied on held when it began: it is what has moved the session since.
        if began.is_some() {
            ctx.expected_seq = None;
        }
        Ok(Self(ctx, began))
    }
}

/// Who asks, if it is said. A name that cannot be kept is refused, so that no request runs under another name by mistake.
fn parse_actor(headers: &HeaderMap) -> Result<Option<Actor>, ApiError> {
    let mut said = headers.get_all(ACTOR).iter();
    let Some(value) = said.next() else { return Ok(None) };
    let name = std::str::from_utf8(value.as_bytes()).ok().filter(|_| said.next().is_none());
    let name =
        name.ok_or_else(|| ApiError::invalid_query("x-turnstone-actor must be one name in UTF-8"))?;
    if name.starts_with(ModelRunner::ACTOR_PREFIX) {
        return Err(ApiError::invalid_query("names of runners are given by the server"));
    }
    if Actor::RESERVED.contains(&name) {
        return Err(ApiError::invalid_query("this name belongs to Turnstone itself"));
    }
    Actor::new(name).map(Some).map_err(|error| ApiError::invalid_query(error.to_string()))
}

/// The person, unless another name is given.
fn resolve_role(given: Option<Actor>, person: &Actor) -> (Actor, CallerRole) {
    match given {
        Some(actor) if actor != *person => (actor, CallerRole::Named),
        Some(_) | None => (person.clone(), CallerRole::Person),
    }
}

/// The header that carries the token of a runner.
pub(crate) const RUNNER_TOKEN_HEADER: &str = "x-turnstone-token";

/// The header that names an actor.
const ACTOR: &str = "x-turnstone-actor";

/// The headers that make a request another one than the person's.
pub(crate) const NARROWING: [&str; 2] = [RUNNER_TOKEN_HEADER, ACTOR];

/// The runner whose token a request carries; `None` without a token.
///
/// # Errors
///
/// 401 for a token that is not valid: it is never taken for the person.
pub(crate) fn authenticate_runner(
    headers: &HeaderMap,
    app: &AppState,
) -> Result<Option<ModelRunner>, ApiError> {
    let mut given = headers.get_all(RUNNER_TOKEN_HEADER).iter();
    let Some(token) = given.next() else { return Ok(None) };
    let found = find_runner_by_token(app, token.as_bytes()).filter(|_| given.next().is_none());
    found.map(Some).ok_or_else(|| {
        let message = "the token is not valid: register again to get another one";
        ApiError::tagged(StatusCode::UNAUTHORIZED, "InvalidTokenError", message)
    })
}

/// The program that asks, as it calls itself; it decides nothing.
fn client_name(headers: &HeaderMap) -> Option<String> {
    let name = headers.get(USER_AGENT).and_then(|value| value.to_str().ok())?;
    Some(format!("http {name}").chars().take(MAX_HEADER_CHARS).collect())
}

/// A header that says something, and not too much.
pub(crate) fn short_header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty() && value.len() <= MAX_HEADER_CHARS).then(|| value.to_owned())
}

/// `If-Match` names the number the session must stand at; anything else in it is a mistake, not "any".
fn parse_if_match(headers: &HeaderMap) -> Result<Option<SessionSeq>, ApiError> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let number = value.to_str().ok().map(|text| text.trim().trim_matches('"'));
    match number.and_then(|text| text.parse::<i64>().ok()).filter(|seq| *seq >= 0) {
        Some(seq) => Ok(Some(SessionSeq(seq))),
        None => Err(ApiError::invalid_query("If-Match must be a sequence number in quotes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_server_user_gets_the_person_role() {
        let actor = |name: &str| Actor::new(name).expect("a name");
        let person = actor("ada");
        assert_eq!(resolve_role(None, &person), (person.clone(), CallerRole::Person));
        assert_eq!(resolve_role(Some(actor("ada")), &person), (person.clone(), CallerRole::Person));
        for name in ["Ada", "cli", "tool", "turnstone"] {
            assert_eq!(resolve_role(Some(actor(name)), &person), (actor(name), CallerRole::Named));
        }
    }

    #[test]
    fn client_name_is_kept_and_truncated() {
        let headers = HeaderMap::from_iter([(USER_AGENT, "cli".parse().expect("a value"))]);
        assert_eq!(client_name(&headers).as_deref(), Some("http cli"));
        assert_eq!(client_name(&HeaderMap::new()), None);
    }
}
