//! Name and password: compared in a time that tells nothing.

use axum::extract::Request;
use axum::http::header;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use subtle::ConstantTimeEq;

use crate::request_input::QueryParams;
use crate::settings::Credentials;

/// What a request says about who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialCheck {
    /// The right name and password.
    Right,
    /// Others.
    Wrong,
    /// None.
    Nothing,
}

/// Compares the credentials of a request with those that are wanted.
pub(super) fn check_credentials(wanted: &Credentials, request: &Request) -> CredentialCheck {
    let named = request.headers().get(header::AUTHORIZATION);
    let basic = named.and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '));
    let basic = basic.and_then(|(scheme, token)| {
        scheme.eq_ignore_ascii_case("basic").then(|| token.trim().to_owned())
    });
    let query = QueryParams::parse(request.uri().query().unwrap_or_default());
    let token = basic.or_else(|| query.get("auth_token").map(str::to_owned));
    match token {
        Some(token) if is_matching_token(wanted, &token) => CredentialCheck::Right,
        Some(_) => CredentialCheck::Wrong,
        // A header of any other form is an attempt as well.
        None if named.is_some() => CredentialCheck::Wrong,
        None => CredentialCheck::Nothing,
    }
}

/// The whole of name and password is compared, whatever is wrong with it.
fn is_matching_token(wanted: &Credentials, token: &str) -> bool {
    let decoded = STANDARD.decode(token).or_else(|_| URL_SAFE.decode(token)).unwrap_or_default();
    let expected = format!("{}:{}", wanted.user, wanted.password);
    bool::from(decoded.ct_eq(expected.as_bytes()))
}
