//! In which line of a file a key is: JSON that was parsed no longer knows.

use turnstone_core::jsonc::{string_length, strip_comments};

/// Returns the line of a key, counted from 1; nothing if the text has no such key.
pub(crate) fn find_key_line(text: &str, path: &[&str]) -> Option<usize> {
    let plain = strip_comments(text);
    let mut finder = KeyFinder { text: &plain, at: 0 };
    let mut position = None;
    for key in path {
        match finder.enter(key) {
            Some(at) => position = Some(at),
            // A mistake in a list is reported at the key of the list.
            None => break,
        }
    }
    let before = plain.get(..position?)?;
    Some(before.matches('\n').count() + 1)
}

struct KeyFinder<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> KeyFinder<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_whitespace(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Moves to the value of a key of the object that begins here, and returns the position of the key.
    fn enter(&mut self, wanted: &str) -> Option<usize> {
        self.skip_whitespace();
        self.at += self.rest().strip_prefix('{').map(|_| 1)?;
        loop {
            self.skip_whitespace();
            let start = self.at;
            let length = self.rest().starts_with('"').then(|| string_length(self.rest()))?;
            let key: String = serde_json::from_str(self.rest().get(..length)?).ok()?;
            self.at += length;
            self.skip_whitespace();
            self.at += self.rest().strip_prefix(':').map(|_| 1)?;
            if key == wanted {
                return Some(start);
            }
            self.skip_value();
            self.at += self.rest().strip_prefix(',').map(|_| 1)?;
        }
    }

    /// Moves behind a value, to the comma or bracket that follows.
    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(next) = self.rest().chars().next() {
            match next {
                '"' => {
                    self.at += string_length(self.rest());
                    continue;
                }
                '{' | '[' => depth += 1,
                '}' | ']' if depth == 0 => return,
                '}' | ']' => depth -= 1,
                ',' if depth == 0 => return,
                _ => {}
            }
            self.at += next.len_utf8();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::find_key_line;

    #[test]
    fn line_of_a_nested_key_is_found_behind_comments() {
        let text = "{\n // \"agent\": {}\n \"model\": [\"a\", {\"agent\": 1}],\n \"agent\": {\n  \"x\": {},\n  \
            \"build\": {\"mode\":\n 5}\n }\n}";
        assert_eq!(find_key_line(text, &["agent"]), Some(4));
        assert_eq!(find_key_line(text, &["agent", "build", "mode"]), Some(6));
        assert_eq!(find_key_line(text, &["model", "0"]), Some(3));
        assert_eq!(find_key_line(text, &["absent"]), None);
        assert_eq!(find_key_line("{\"a\" 1", &["a"]), None);
    }
}
