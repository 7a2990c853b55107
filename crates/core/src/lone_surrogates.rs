//! Lone UTF-16 surrogates: half a character, as JSON from JavaScript may hold it and Rust text cannot.
//!
//! Inside of Turnstone a lone surrogate is the mark U+FDD0 with one of 2,048 private characters behind it, and the
//! mark itself is written twice, so no text means two things. JSON that comes in goes through [`decode_json`],
//! JSON that goes out through [`encode_json`]; nothing else knows the form. Two halves that meet because
//! texts were joined leave as the character.
//!
//! Text without the mark and without `\ud…` is not copied: the only cost is the search for them.

use std::borrow::Cow;

use memchr::memmem;

/// A code point that Unicode reserves for use inside of a program.
const MARK: char = '\u{FDD0}';
const MARK_UTF8: &str = "\u{FDD0}";
/// Stands for U+D800 behind a mark; the others follow.
const FIRST_PLACEHOLDER: u32 = 0x0010_F800;
const FIRST_SURROGATE: u32 = 0xD800;
const FIRST_LOW_SURROGATE: u32 = 0xDC00;
const SURROGATES: u32 = 0x800;

/// JSON from outside, in the form in which it is parsed and stored.
#[must_use]
pub fn decode_json(json: &str) -> Cow<'_, str> {
    if !has_mark(json) && !has_escaped_surrogate(json) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 64);
    let mut rest = json;
    while let Some(at) = rest.find(['\\', MARK]) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = match rest.strip_prefix(MARK) {
            Some(rest) => {
                push_mark(&mut out);
                rest
            }
            None => decode_escape(&mut out, rest),
        };
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// JSON as it was parsed or stored, in the form in which others read it.
#[must_use]
pub fn encode_json(json: &str) -> Cow<'_, str> {
    rewrite_marks(json, |out, unit| {
        use std::fmt::Write as _;
        // Writing into a text cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    })
}

/// As [`encode_json`], for the bytes of an answer; `None` if they can be sent as they are.
#[must_use]
pub fn encode_json_bytes(json: &[u8]) -> Option<String> {
    memmem::find(json, MARK_UTF8.as_bytes())?;
    Some(encode_json(std::str::from_utf8(json).ok()?).into_owned())
}

/// Text for people and for the search index: half a character is shown as U+FFFD.
#[must_use]
pub fn to_display(text: &str) -> Cow<'_, str> {
    rewrite_marks(text, |out, _| out.push(char::REPLACEMENT_CHARACTER))
}

fn rewrite_marks(text: &str, mut write_lone: impl FnMut(&mut String, u32)) -> Cow<'_, str> {
    if !has_mark(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        let behind = &rest[at + MARK_UTF8.len()..];
        rest = match split_placeholder(behind) {
            Some((unit, behind)) => match split_low_half(unit, behind) {
                Some((whole, behind)) => {
                    out.push(whole);
                    behind
                }
                None => {
                    write_lone(&mut out, unit);
                    behind
                }
            },
            None => {
                out.push(MARK);
                // A mark that was cut from what stood behind it is shown as it is.
                behind.strip_prefix(MARK).unwrap_or(behind)
            }
        };
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn has_mark(text: &str) -> bool {
    memmem::find(text.as_bytes(), MARK_UTF8.as_bytes()).is_some()
}

/// True if JSON may hold `\ud8…` to `\udf…` or `\ufdd0`; also for some texts that hold neither.
fn has_escaped_surrogate(json: &str) -> bool {
    let bytes = json.as_bytes();
    memmem::find_iter(bytes, b"\\u").any(|at| match bytes.get(at + 2) {
        Some(b'd' | b'D') => {
            matches!(bytes.get(at + 3), Some(b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F'))
        }
        Some(b'f' | b'F') => matches!(bytes.get(at + 3), Some(b'd' | b'D')),
        Some(_) | None => false,
    })
}

/// Copies what begins with a backslash, and returns what follows it.
fn decode_escape<'t>(out: &mut String, rest: &'t str) -> &'t str {
    let Some((unit, behind)) = split_unicode_escape(rest) else {
        // Two characters, if there are two: the second may be a backslash, too.
        let length = rest.chars().take(2).map(char::len_utf8).sum();
        let (escape, behind) = rest.split_at(length);
        out.push_str(escape);
        return behind;
    };
    if unit == u32::from(MARK) {
        push_mark(out);
        return behind;
    }
    if !is_surrogate(unit) {
        out.push_str(&rest[..rest.len() - behind.len()]);
        return behind;
    }
    let low = split_unicode_escape(behind).filter(|(low, _)| join_halves(unit, *low).is_some());
    match low {
        Some((_, after)) => {
            out.push_str(&rest[..rest.len() - after.len()]);
            after
        }
        None => {
            out.push(MARK);
            out.extend(char::from_u32(FIRST_PLACEHOLDER + (unit - FIRST_SURROGATE)));
            behind
        }
    }
}

fn push_mark(out: &mut String) {
    out.push_str(MARK_UTF8);
    out.push_str(MARK_UTF8);
}

/// The code unit of `\uXXXX` at the beginning of a text, and what follows.
fn split_unicode_escape(text: &str) -> Option<(u32, &str)> {
    let digits = text.strip_prefix("\\u")?;
    let (digits, behind) = digits.split_at_checked(4)?;
    // A sign is no digit, although the parser of numbers takes one.
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = u32::from_str_radix(digits, 16).ok().filter(|_| are_digits)?;
    Some((unit, behind))
}

/// The surrogate whose stand-in begins a text, and what follows.
fn split_placeholder(text: &str) -> Option<(u32, &str)> {
    let first = text.chars().next()?;
    let number = u32::from(first).checked_sub(FIRST_PLACEHOLDER).filter(|it| *it < SURROGATES)?;
    Some((FIRST_SURROGATE + number, &text[first.len_utf8()..]))
}

/// The character of a half and the half at the beginning of a text, and what follows.
fn split_low_half(high: u32, text: &str) -> Option<(char, &str)> {
    let (low, behind) = split_placeholder(text.strip_prefix(MARK)?)?;
    Some((join_halves(high, low)?, behind))
}

fn join_halves(high: u32, low: u32) -> Option<char> {
    let is_high = (FIRST_SURROGATE..FIRST_LOW_SURROGATE).contains(&high);
    let is_low = (FIRST_LOW_SURROGATE..FIRST_SURROGATE + SURROGATES).contains(&low);
    if !is_high || !is_low {
        return None;
    }
    char::from_u32(0x1_0000 + ((high - FIRST_SURROGATE) << 10) + (low - FIRST_LOW_SURROGATE))
}

const fn is_surrogate(unit: u32) -> bool {
    unit >= FIRST_SURROGATE && unit < FIRST_SURROGATE + SURROGATES
}
