//! Name and password: compared in a time that tells nothing.

use axum::extract::Request;
use axum::http::{Method, header};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use subtle::ConstantTimeEq;

use crate::input::Query;
use crate::settings::{Credentials, Settings};

/// True if nothing is asked for, or the request knows it.
pub(super) fn is_right(settings: &Settings, request: &Request) -> bool {
    let Some(wanted) = &settings.credentials else { return true };
    if *request.method() == Method::OPTIONS {
        return true;
    }
    let named = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let basic = named.and_then(|value| value.split_once(' ')).and_then(|(scheme, token)| {
        scheme.eq_ignore_ascii_case("basic").then(|| token.trim().to_owned())
    });
    let query = Query::of(request.uri().query().unwrap_or_default());
    let token = basic.or_else(|| query.get("auth_token").map(str::to_owned));
    token.is_some_and(|token| fits(wanted, &token))
}

/// The whole of name and password is compared, whatever is wrong with it.
fn fits(wanted: &Credentials, token: &str) -> bool {
    let decoded = STANDARD.decode(token).or_else(|_| URL_SAFE.decode(token)).unwrap_or_default();
    let expected = format!("{}:{}", wanted.user, wanted.password);
    bool::from(decoded.ct_eq(expected.as_bytes()))
}
