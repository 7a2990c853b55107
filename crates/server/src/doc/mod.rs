//! The OpenAPI document: every route with what it takes and answers.
//!
//! `opencode.json` is derived by `scripts/derive-openapi.mjs`, `native.json` is written by hand.

mod document;

pub(crate) use document::openapi_document;
