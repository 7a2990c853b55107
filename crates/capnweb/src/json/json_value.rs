//! A JSON text as a tree.

use std::fmt;

use super::json_writer;

/// One JSON value; keys keep the order in which they were written.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A double, as everywhere in JavaScript.
    Number(f64),
    /// Text; a lone surrogate became U+FFFD.
    String(String),
    /// Values in order.
    Array(Vec<Json>),
    /// Keys and values; no key twice.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Returns the text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self {
            return Some(text);
        }
        None
    }

    /// Returns the number if it is an integer that JavaScript can represent exactly.
    pub fn as_integer(&self) -> Option<i64> {
        if let Self::Number(number) = self {
            return as_safe_integer(*number);
        }
        None
    }

    /// Appends the JSON text.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(number) if number.is_finite() => json_writer::write_number(*number, out),
            // What `JSON.stringify` makes of `Infinity`.
            Self::Number(_) => out.push_str("null"),
            Self::String(text) => json_writer::write_string(text, out),
            Self::Array(items) => {
                json_writer::write_separated(out, ('[', ']'), items, |item, out| item.write(out));
            }
            Self::Object(fields) => {
                json_writer::write_separated(out, ('{', '}'), fields, |(key, value), out| {
                    json_writer::write_string(key, out);
                    out.push(':');
                    value.write(out);
                });
            }
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        out.write_str(&text)
    }
}

/// The largest integer that JavaScript counts to without a gap: 2^53 − 1.
pub(crate) const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Returns the number as an integer, if it is one within ±(2^53 − 1).
pub(crate) fn as_safe_integer(number: f64) -> Option<i64> {
    let safe = number.trunc() == number && number.abs() <= MAX_SAFE_INTEGER as f64;
    safe.then_some(number as i64)
}
