//! JSON as people write it: with comments, and commas before a closing bracket.

/// Blanks comments and commas before a closing bracket; positions in the text do not change. A text with an
/// unclosed comment is returned as it is: no JSON parser accepts it.
#[must_use]
pub fn strip_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Where a comma is that nothing has followed yet.
    let mut comma: Option<usize> = None;
    while let Some(next) = rest.chars().next() {
        let taken = match next {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            // One that does not end is no comment, and no JSON either.
            '/' if rest.starts_with("/*") => match rest.get(2..).and_then(|it| it.find("*/")) {
                Some(end) => end + 4,
                None => return text.to_owned(),
            },
            _ => next.len_utf8(),
        };
        let (piece, after) = rest.split_at(taken);
        rest = after;
        if piece.starts_with("//") || piece.starts_with("/*") {
            plain.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' }));
            continue;
        }
        match next {
            // A list does not begin with one.
            ',' if !plain.trim_end().ends_with(['{', '[', ',']) => comma = Some(plain.len()),
            ']' | '}' => {
                if let Some(at) = comma.take() {
                    plain.replace_range(at..=at, " ");
                }
            }
            next if !next.is_whitespace() => comma = None,
            _ => {}
        }
        plain.push_str(piece);
    }
    plain
}

/// Returns the length in bytes of the JSON string that a text begins with, its quotes included.
#[must_use]
pub fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::strip_comments;

    fn parse(text: &str) -> Option<Value> {
        serde_json::from_str(&strip_comments(text)).ok()
    }

    #[test]
    fn comments_and_trailing_commas_are_stripped_outside_strings() {
        let text = "// é\n{ \"a\": \"x // y /* z */ ,}\", /* , */\n \"b\": [1, 2,\n], }\n// end";
        assert_eq!(parse(text), Some(json!({ "a": "x // y /* z */ ,}", "b": [1, 2] })));
        assert_eq!(parse(r#"{"q": "\"//"}"#), Some(json!({ "q": "\"//" })));
    }

    #[test]
    fn broken_json_stays_an_error() {
        for text in ["{", "{\"a\": }", "[,]", "/* open", "{\"a\" 1}"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
