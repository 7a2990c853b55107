//! Redaction of secrets in configuration before it is shown: in answers, messages and logs.
//!
//! A setting is redacted by the name of its field and by its value; prose (prompts, descriptions,
//! templates) only by its value, so that a sentence about an API key survives. Hides too much rather than
//! too little, but never changes model names, ids, paths, hashes of commits, or permission actions. It is a
//! safety net: a secret without a known name or shape cannot be recognised.

mod name;
mod pattern;
mod shape;
mod text;
mod url;
mod value;

#[cfg(test)]
mod tests;

pub use text::{redact_prose, redact_text};
pub use value::redact;

/// Stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";
