//! Who asks, and under which conditions: a request's context (R43).

use axum::extract::FromRequestParts;
use axum::http::header::{IF_MATCH, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use turnstone_core::time::{Cursor, Seq};
use turnstone_store::{Actor, Context};

use crate::app::App;
use crate::error::ApiError;
use crate::once::Known;

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
        let actor = actor(headers)?.unwrap_or_else(|| app.settings().actor.clone());
        let mut ctx = Context::new(actor, app.now());
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
    let mut said = headers.get_all("x-turnstone-actor").iter();
    let Some(value) = said.next() else { return Ok(None) };
    let name = std::str::from_utf8(value.as_bytes()).ok().filter(|_| said.next().is_none());
    let name =
        name.ok_or_else(|| ApiError::query("x-turnstone-actor must be one name in UTF-8"))?;
    Actor::new(name).map(Some).map_err(|error| ApiError::query(error.to_string()))
}

/// The program that asks, as it calls itself. Whatever it says, it came over the wire: it is neither a
/// person at the command line nor a tool of ours (R37).
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
    use turnstone_core::permission;

    use super::*;

    #[test]
    fn nobody_becomes_a_person_by_the_name_of_their_program_r37() {
        for name in [permission::Caller::CLI, permission::Caller::TOOL] {
            let headers = HeaderMap::from_iter([(USER_AGENT, name.parse().expect("a value"))]);
            let caller = permission::Caller::of(client(&headers).as_deref(), false);
            assert_eq!(caller, permission::Caller::Other);
        }
        assert_eq!(client(&HeaderMap::new()), None);
    }
}
