//! JSON as people write it: with comments, and commas before a closing bracket.

use serde_json::Value;

/// Reads such a text.
pub(super) fn parse_jsonc(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&strip_comments(text))
}

/// The same text as plain JSON: what is left out becomes spaces, so that places in it stay.
fn strip_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    // A comma may go only if it follows a value.
    let (mut at, mut comma, mut valued) = (0, None, false);
    while let Some(&byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (b'"', _) => {
                at = string_end(&bytes, at);
                (comma, valued) = (None, true);
                continue;
            }
            (b'/', Some(b'/' | b'*')) => {
                let end = comment_end(&bytes, at);
                for byte in bytes.iter_mut().take(end).skip(at).filter(|byte| **byte != b'\n') {
                    *byte = b' ';
                }
                at = end;
                continue;
            }
            (b',', _) => (comma, valued) = (valued.then_some(at), false),
            (b'}' | b']', _) => {
                if let Some(byte) = comma.and_then(|at: usize| bytes.get_mut(at)) {
                    *byte = b' ';
                }
                (comma, valued) = (None, true);
            }
            (byte, _) if byte.is_ascii_whitespace() => {}
            (byte, _) => (comma, valued) = (None, !matches!(byte, b'{' | b'[' | b':')),
        }
        at += 1;
    }
    // Only whole comments and single commas were replaced, so it is text still.
    String::from_utf8_lossy(&bytes).into_owned()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn comment_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start + 2..).unwrap_or_default();
    let end = if bytes.get(start + 1) == Some(&b'/') {
        rest.iter().position(|byte| *byte == b'\n')
    } else {
        rest.windows(2).position(|pair| pair == b"*/").map(|at| at + 2)
    };
    end.map_or(bytes.len(), |end| start + 2 + end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse_jsonc;

    #[test]
    fn comments_and_trailing_commas_are_stripped_outside_strings() {
        let text = "// é\n{ \"a\": \"x // y /* z */ ,}\", /* , */\n \"b\": [1, 2,\n], }\n// end";
        assert_eq!(parse_jsonc(text).ok(), Some(json!({ "a": "x // y /* z */ ,}", "b": [1, 2] })));
        assert_eq!(parse_jsonc(r#"{"q": "\"//"}"#).ok(), Some(json!({ "q": "\"//" })));
    }

    #[test]
    fn broken_json_stays_an_error() {
        for text in ["{", "{\"a\": }", "[,]", "/* open", "{\"a\" 1}"] {
            assert!(parse_jsonc(text).is_err(), "{text}");
        }
    }
}
