//! How much one thing of a source may be: a source is a file of somebody else's.
//!
//! What is larger is rejected and named in the report, so that no import needs more memory than a few
//! such things, whatever the size of the source.

use std::io;

use serde_json::Value;
use turnstone_core::lone_surrogates::decode_json;

/// Bytes of one session, message, part, list or row.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// Values in the JSON of one of these: a parsed value takes up to fifty times the room of its text.
pub(super) const MAX_VALUES: usize = 100_000;
/// Bytes of an element of a document; reading cannot go on behind a larger one.
pub(super) const MAX_ELEMENT: u64 = 64 << 20;
/// Bytes of a database or of one of its logs, or of what a stream brings.
pub(super) const MAX_SOURCE: u64 = 32 << 30;
/// Bytes of an id; a longer one is no id of OpenCode's.
pub(super) const MAX_ID: usize = 512;

/// Parses the JSON of one thing.
///
/// # Errors
///
/// Why it is not taken, in words that quote nothing of it.
pub(super) fn parse_json(text: &str) -> Result<Value, String> {
    if text.len() > MAX_BYTES {
        return Err(too_large_reason());
    }
    if count_values(text) > MAX_VALUES {
        return Err(format!("holds more than {MAX_VALUES} values"));
    }
    serde_json::from_str(&decode_json(text)).map_err(|error| format!("not JSON: {error}"))
}

/// The reason for rejecting something with too many bytes.
pub(super) fn too_large_reason() -> String {
    format!("larger than {} MiB", MAX_BYTES >> 20)
}

/// The same as an error of the system.
pub(super) fn source_too_large() -> io::Error {
    let message = format!("it is larger than {} GiB", MAX_SOURCE >> 30);
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

/// How many values a JSON text can hold at most: one begins the text, and one follows each separator.
fn count_values(text: &str) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
        assert_eq!(count_values("0"), 1);
        assert_eq!(count_values(r#"{"a,[{":"\",,,","b":[1,2,[]]}"#), 7);
        assert!(parse_json(&format!("[{}0]", "0,".repeat(MAX_VALUES))).is_err());
        assert!(parse_json(&format!("[{}0]", "0,".repeat(MAX_VALUES - 10))).is_ok());
    }

    #[test]
    fn deep_nesting_is_rejected_without_quoting() {
        let error = parse_json(&"[".repeat(90_000)).expect_err("too deep");
        assert!(error.starts_with("not JSON: recursion limit exceeded"), "{error}");
    }
}
