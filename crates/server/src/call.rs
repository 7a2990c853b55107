//! Who asks, and under which conditions: a request's context (R43).
//!
//! A request without a token is the person who runs the server. A token makes it the runner it was given
//! to, and `x-turnstone-actor` makes it another actor: both may do less than the person, never more.

use axum::extract::FromRequestParts;
use axum::http::header::{IF_MATCH, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use turnstone_core::permission::Role;
use turnstone_core::time::{Cursor, Seq};
use turnstone_store::{Actor, Context};

use crate::app::App;
use crate::error::ApiError;
use crate::once::Known;
use crate::runner::Runner;

/// The longest name of a client that is kept.
const LONGEST: usize = 128;

/// The context of a request: actor, client, request id, idempotency key, expected number.
///
/// A repeat of a request that was cut off half way is refused here: what it did is done, and what it
/// answered nobody knows. Handlers that can find out ask for [`Repeat`] instead.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Context);

/// The same, with the first event of an earlier try that never answered.
#[derive(Clone, Debug)]
pub(crate) struct Repeat(pub(crate) Context, pub(crate) Option<Cursor>);

impl Caller {
    /// The context the headers of a request ask for.
    pub(crate) fn of(headers: &HeaderMap, app: &App) -> Result<Self, ApiError> {
        let (actor, role) = match runner(headers, app)? {
            // What it calls itself as well does not make it anybody else.
            Some(runner) => (runner.actor(), Role::Runner),
            None => named(actor(headers)?, &app.settings().actor),
        };
        let mut ctx = Context::new(actor, app.now()).acting_as(role);
        ctx.client = client(headers);
        ctx.request = text(headers, "x-request-id");
        ctx.expected_seq = expected(headers)?;
        Ok(Self(ctx))
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Repeat(ctx, began) = Repeat::from_request_parts(parts, app).await?;
        match began {
            None => Ok(Self(ctx)),
            Some(at) => {
                let message = "a request with this Idempotency-Key was cut off before it answered; \
                               look at what it did before you use another key";
                Err(ApiError::tagged(StatusCode::CONFLICT, "CutOffError", message)
                    .with("cursor", at.0))
            }
        }
    }
}

impl FromRequestParts<App> for Repeat {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Caller(mut ctx) = Caller::of(&parts.headers, app)?;
        let known = parts.extensions.get::<Known>();
        ctx.idempotency = known.map(|known| known.key.clone());
        let began = known.and_then(|known| known.began);
        // What the first try relied on held when it began: it is what has moved the session since.
        if began.is_some() {
            ctx.expected_seq = None;
        }
        Ok(Self(ctx, began))
    }
}

/// Who asks, if it is said. A name that cannot be kept is refused: nobody acts under another one unawares.
fn actor(headers: &HeaderMap) -> Result<Option<Actor>, ApiError> {
    let mut said = headers.get_all(ACTOR).iter();
    let Some(value) = said.next() else { return Ok(None) };
    let name = std::str::from_utf8(value.as_bytes()).ok().filter(|_| said.next().is_none());
    let name =
        name.ok_or_else(|| ApiError::query("x-turnstone-actor must be one name in UTF-8"))?;
    if name.starts_with(Runner::ACTOR_PREFIX) {
        return Err(ApiError::query("names of runners are given by the server"));
    }
    if Actor::RESERVED.contains(&name) {
        return Err(ApiError::query("this name belongs to Turnstone itself"));
    }
    Actor::new(name).map(Some).map_err(|error| ApiError::query(error.to_string()))
}

/// The person, unless another name is given.
fn named(given: Option<Actor>, person: &Actor) -> (Actor, Role) {
    match given {
        Some(actor) if actor != *person => (actor, Role::Named),
        Some(_) | None => (person.clone(), Role::Person),
    }
}

/// The header that carries the token of a runner.
pub(crate) const TOKEN: &str = "x-turnstone-token";

/// The header that names an actor.
const ACTOR: &str = "x-turnstone-actor";

/// The headers that make a request another one than the person's.
pub(crate) const NARROWING: [&str; 2] = [TOKEN, ACTOR];

/// The runner whose token a request carries; `None` without a token.
///
/// # Errors
///
/// 401 for a token that is not valid: it is never taken for the person.
pub(crate) fn runner(headers: &HeaderMap, app: &App) -> Result<Option<Runner>, ApiError> {
    let mut given = headers.get_all(TOKEN).iter();
    let Some(token) = given.next() else { return Ok(None) };
    let found = app.find_runner_by_token(token.as_bytes()).filter(|_| given.next().is_none());
    found.map(Some).ok_or_else(|| {
        let message = "the token is not valid: register again to get another one";
        ApiError::tagged(StatusCode::UNAUTHORIZED, "InvalidTokenError", message)
    })
}

/// The program that asks, as it calls itself; it decides nothing.
fn client(headers: &HeaderMap) -> Option<String> {
    let name = headers.get(USER_AGENT).and_then(|value| value.to_str().ok())?;
    Some(format!("http {name}").chars().take(LONGEST).collect())
}

/// A header that says something, and not too much.
pub(crate) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty() && value.len() <= LONGEST).then(|| value.to_owned())
}

/// `If-Match` names the number the session must stand at; anything else in it is a mistake, not "any".
fn expected(headers: &HeaderMap) -> Result<Option<Seq>, ApiError> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let number = value.to_str().ok().map(|text| text.trim().trim_matches('"'));
    match number.and_then(|text| text.parse::<i64>().ok()).filter(|seq| *seq >= 0) {
        Some(seq) => Ok(Some(Seq(seq))),
        None => Err(ApiError::query("If-Match must be a sequence number in quotes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_person_is_the_person() {
        let actor = |name: &str| Actor::new(name).expect("a name");
        let person = actor("ada");
        assert_eq!(named(None, &person), (person.clone(), Role::Person));
        assert_eq!(named(Some(actor("ada")), &person), (person.clone(), Role::Person));
        for name in ["Ada", "cli", "tool", "turnstone"] {
            assert_eq!(named(Some(actor(name)), &person), (actor(name), Role::Named));
        }
    }

    #[test]
    fn the_name_of_a_program_is_kept_and_short() {
        let headers = HeaderMap::from_iter([(USER_AGENT, "cli".parse().expect("a value"))]);
        assert_eq!(client(&headers).as_deref(), Some("http cli"));
        assert_eq!(client(&HeaderMap::new()), None);
    }
}
