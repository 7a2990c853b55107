//! Reading what `JSON.parse` reads, within a depth.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Json;
use super::raw_json::RawJson;

/// Why a text is not JSON that we accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Something that JSON does not have at this place.
    #[error("invalid JSON at byte {at}")]
    Syntax {
        /// Offset of the first byte that does not fit.
        at: usize,
    },
    /// Brackets within brackets beyond the limit.
    #[error("JSON is nested too deeply")]
    TooDeep,
    /// More values than the limit.
    #[error("too many values in one message")]
    TooMany,
}

/// Reads one JSON text whose brackets nest at most `depth` times.
///
/// # Errors
///
/// [`JsonError`]; nothing of the text is kept.
pub fn parse_json(text: &str, depth: usize) -> Result<Json, JsonError> {
    Ok(parse_raw_json(text, depth, usize::MAX)?.to_json())
}

/// Reads at most `values` values as [`parse_json`] does, without copying from the text.
pub(crate) fn parse_raw_json(
    text: &str,
    depth: usize,
    values: usize,
) -> Result<RawJson<'_>, JsonError> {
    let mut reader = JsonReader { text, bytes: text.as_bytes(), at: 0, values };
    let value = reader.value(depth)?;
    reader.skip_space();
    if reader.at < reader.bytes.len() {
        return Err(reader.syntax_error());
    }
    Ok(value)
}

struct JsonReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Values that may still be read.
    values: usize,
}

impl<'a> JsonReader<'a> {
    fn syntax_error(&self) -> JsonError {
        JsonError::Syntax { at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes the byte if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.take(byte) {
            return Ok(());
        }
        Err(self.syntax_error())
    }

    fn expect_word(&mut self, word: &str, value: RawJson<'a>) -> Result<RawJson<'a>, JsonError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.syntax_error())
    }

    fn value(&mut self, depth: usize) -> Result<RawJson<'a>, JsonError> {
        self.values = self.values.checked_sub(1).ok_or(JsonError::TooMany)?;
        self.skip_space();
        match self.peek() {
            Some(b'"') => self.string().map(RawJson::String),
            Some(b'[') => self.array(depth),
            Some(b'{') => self.object(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.expect_word("true", RawJson::Bool(true)),
            Some(b'f') => self.expect_word("false", RawJson::Bool(false)),
            Some(b'n') => self.expect_word("null", RawJson::Null),
            _ => Err(self.syntax_error()),
        }
    }

    fn array(&mut self, depth: usize) -> Result<RawJson<'a>, JsonError> {
        let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
        self.expect(b'[')?;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(RawJson::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(RawJson::Array(items));
            }
            self.expect(b',')?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<RawJson<'a>, JsonError> {
        let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
        self.expect(b'{')?;
        let mut fields = Vec::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(RawJson::Object(fields));
        }
        loop {
            self.skip_space();
            let key = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            fields.push((key, self.value(depth)?));
            self.skip_space();
            if self.take(b'}') {
                return Ok(RawJson::Object(dedupe_keys(fields)));
            }
            self.expect(b',')?;
        }
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.syntax_error());
        }
        Ok(())
    }

    fn number(&mut self) -> Result<RawJson<'a>, JsonError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _signed = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        if let Some(number) = small_integer(text) {
            return Ok(RawJson::Number(number));
        }
        // Too large for a double is infinite, as in JavaScript.
        let number = text.parse();
        number.map(RawJson::Number).map_err(|_| self.syntax_error())
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.expect(b'"')?;
        let plain = self.unescaped_run();
        if self.take(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        self.rest_of_escaped_string(plain.to_owned()).map(Cow::Owned)
    }

    /// Takes characters that stand for themselves.
    fn unescaped_run(&mut self) -> &'a str {
        let rest = &self.bytes[self.at..];
        let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
        let start = self.at;
        self.at += rest.iter().position(special).unwrap_or(rest.len());
        &self.text[start..self.at]
    }

    /// Reads the rest of a string that has escapes.
    fn rest_of_escaped_string(&mut self, mut out: String) -> Result<String, JsonError> {
        loop {
            out.push_str(self.unescaped_run());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return Err(self.syntax_error()),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let escaped = match self.peek() {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.syntax_error()),
        };
        self.at += 1;
        Ok(escaped)
    }

    /// Reads the four digits after `\u`, and the second half of a pair.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex_unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = self.at;
        if self.take(b'\\') && self.take(b'u') {
            let second = self.hex_unit()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        // A lone surrogate: what follows is read again by itself.
        self.at = after_first;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex_unit(&mut self) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| self.syntax_error())?;
            self.at += 1;
        }
        Ok(unit)
    }
}

type RawField<'a> = (Cow<'a, str>, RawJson<'a>);

/// Returns the number if it is a few digits: those need no rounding.
fn small_integer(text: &str) -> Option<f64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = digits.bytes().fold(0, |whole, digit| whole * 10 + u32::from(digit - b'0'));
    let number = f64::from(whole);
    Some(if negative { -number } else { number })
}

/// Keeps the last value of a key at the place of its first.
fn dedupe_keys<'a>(fields: Vec<RawField<'a>>) -> Vec<RawField<'a>> {
    let few = fields.len() <= 8;
    let twice = |index: usize| fields[..index].iter().any(|(key, _)| *key == fields[index].0);
    if few && !(1..fields.len()).any(twice) {
        return fields;
    }
    let mut places = HashMap::with_capacity(fields.len());
    let mut kept: Vec<RawField<'a>> = Vec::with_capacity(fields.len());
    for (key, value) in fields {
        let place = *places.entry(key.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(field) => field.1 = value,
            None => kept.push((key, value)),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        parse_json(text, 9).expect("valid JSON").to_string()
    }

    #[test]
    fn json_is_parsed_like_javascript() {
        assert_eq!(again(r#" { "a" : 1 , "b":2,"a":[ ] } "#), r#"{"a":[],"b":2}"#);
        assert_eq!(again(r#""\u0041\ud83d\ude00\ud83dx\/""#), "\"A😀\u{fffd}x/\"");
        assert_eq!(again(r#""\ud83d\u0041""#), "\"\u{fffd}A\"");
        assert_eq!(again("1e400"), "null");
        assert_eq!(again("-0"), "0");
    }

    #[test]
    fn json_javascript_rejects_is_rejected() {
        for text in [
            "",
            "01",
            "1.",
            ".5",
            "+1",
            "NaN",
            "[1,]",
            "{\"a\"}",
            "'a'",
            "\"\n\"",
            "\"\\x\"",
            "tru",
            "[",
            "1 2",
            "{a:1}",
            "\"\\u12",
            "--1",
            "\u{feff}1",
        ] {
            assert!(parse_json(text, 9).is_err(), "{text:?} was read");
        }
    }

    #[test]
    fn nesting_limit_applies_before_recursion() {
        assert!(parse_json("[[[]]]", 3).is_ok());
        assert_eq!(parse_json("[[[]]]", 2), Err(JsonError::TooDeep));
        assert_eq!(parse_json(&"[".repeat(1_000_000), 512), Err(JsonError::TooDeep));
    }
}
