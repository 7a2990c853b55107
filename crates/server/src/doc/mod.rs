//! The OpenAPI document: every route with what it takes and answers.
//!
//! `opencode.json` is derived by `scripts/derive-openapi.mjs`, `native.json` is written by hand; a
//! tidy test compares its schemas with the types of the handlers.

mod document;

pub(crate) use document::openapi_document;
