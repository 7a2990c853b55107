//! Text for terminals: escaped, truncated and wrapped by display width.

use turnstone_core::lone_surrogates::to_display;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Escapes control characters; line breaks and tabs become spaces.
pub(crate) fn sanitize_line(text: &str) -> String {
    sanitize_with(text, |c| if matches!(c, '\n' | '\r' | '\t') { Some(' ') } else { None })
}

/// Escapes control characters; line breaks stay.
pub(crate) fn sanitize_block(text: &str) -> String {
    sanitize_with(&text.replace("\r\n", "\n").replace('\t', "    "), |c| (c == '\n').then_some(c))
}

/// Replaces every unsafe character that `kept` does not map to another one.
fn sanitize_with(text: &str, kept: impl Fn(char) -> Option<char>) -> String {
    let text = to_display(text);
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match kept(c) {
            Some(kept) => safe.push(kept),
            None => push_visible(&mut safe, c),
        }
    }
    safe
}

/// True for a character that controls a terminal, reorders text or is invisible.
///
/// C0, DEL and C1; the bidirectional marks, embeddings, overrides and isolates; the line and
/// paragraph separators; deprecated format characters, annotation marks and tags. Joiners stay:
/// scripts and emoji need them.
pub(crate) const fn is_unsafe(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Adds a character, an unsafe one in a visible form: `␛` or `<U+202E>`.
fn push_visible(out: &mut String, c: char) {
    match c {
        '\0'..='\u{1f}' => {
            out.push(char::from_u32(u32::from(c) + 0x2400).unwrap_or('\u{fffd}'));
        }
        '\u{7f}' => out.push('\u{2421}'),
        _ if is_unsafe(c) => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
        _ => out.push(c),
    }
}

/// Escapes unsafe characters for a terminal; line breaks and tabs stay.
pub(crate) fn escape_for_terminal(text: &str) -> String {
    sanitize_with(text, |c| matches!(c, '\n' | '\t').then_some(c))
}

/// Escapes bytes for a terminal; invalid UTF-8 is shown as `\x9b`.
pub(crate) fn escape_bytes_for_terminal(bytes: &[u8]) -> String {
    let mut safe = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        safe.push_str(&escape_for_terminal(chunk.valid()));
        for byte in chunk.invalid() {
            safe.push_str(&format!("\\x{byte:02x}"));
        }
    }
    safe
}

/// A JSON text in which unsafe characters are `\u` escapes: the same value for every parser.
///
/// Between the strings of a JSON text only the line breaks of its layout can occur, so every other
/// unsafe character is inside a string.
pub(crate) fn escape_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_unsafe(c) {
            safe.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            safe.push_str(&format!("\\u{unit:04x}"));
        }
    }
    safe
}

/// Display width in columns.
pub(crate) fn display_width(text: &str) -> usize {
    text.width()
}

/// Truncates the text with `…` to `limit` columns.
pub(crate) fn truncate_to_width(text: &str, limit: usize) -> String {
    if text.width() <= limit {
        return text.to_owned();
    }
    let mut used = 1; // the ellipsis
    let mut short = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > limit {
            break;
        }
        short.push(c);
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// Truncates the text with `…` at its start to `limit` columns: the end of a path says most.
pub(crate) fn truncate_start(text: &str, limit: usize) -> String {
    if text.width() <= limit {
        return text.to_owned();
    }
    let mut used = 1; // the ellipsis
    let mut kept: Vec<char> = Vec::new();
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > limit {
            break;
        }
        kept.push(c);
    }
    std::iter::once('…').chain(kept.into_iter().rev()).collect()
}

/// Wraps the lines of a text between words at `limit` columns.
pub(crate) fn wrap(text: &str, limit: Option<usize>) -> Vec<String> {
    let Some(limit) = limit else {
        return text.lines().map(str::to_owned).collect();
    };
    text.lines().flat_map(|line| wrap_line(line, limit.max(20))).collect()
}

fn wrap_line(line: &str, limit: usize) -> Vec<String> {
    if line.width() <= limit {
        return vec![line.to_owned()];
    }
    // Continuation lines keep the indent, so that lists and code stay readable.
    let indent: String = line.chars().take_while(|c| *c == ' ').take(limit / 2).collect();
    let mut lines = Vec::new();
    let mut current = indent.clone();
    for word in line.trim_start_matches(' ').split_inclusive(' ') {
        let fits = current.width() + word.trim_end().width() <= limit;
        if !fits && current.width() > indent.width() {
            lines.push(current.trim_end().to_owned());
            current.clone_from(&indent);
        }
        for c in word.chars() {
            if current.width() + c.width().unwrap_or(0) > limit && c != ' ' {
                lines.push(current.trim_end().to_owned());
                current.clone_from(&indent);
            }
            current.push(c);
        }
    }
    lines.push(current.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible() {
        let hostile = "a\u{1b}[31mred\u{7}\r\nb\u{9b}2J\u{202e}c\td";
        assert_eq!(sanitize_line(hostile), "a␛[31mred␇  b<U+009B>2J<U+202E>c d");
        assert_eq!(sanitize_block("a\r\nb\u{1b}c\td\u{7f}"), "a\nb␛c    d␡");
    }

    #[test]
    fn terminal_escapes_keep_line_breaks_tabs_and_joiners() {
        assert_eq!(escape_for_terminal("a\tb\r\n\u{200d}é\u{61c}"), "a\tb␍\n\u{200d}é<U+061C>");
        assert_eq!(escape_bytes_for_terminal(b"a\x9b2J\xc2\x9b\xff\x1b"), "a\\x9b2J<U+009B>\\xff␛");
    }

    #[test]
    fn json_escapes_keep_the_value() {
        let value = serde_json::json!({ "a\u{7f}": "\u{1b}\u{9b}\u{202e}\u{e0041}é\"\\" });
        let text = escape_json(&serde_json::to_string_pretty(&value).expect("JSON"));
        assert!(!text.chars().any(|c| c != '\n' && is_unsafe(c)), "{text}");
        assert!(text.contains("\\udb40\\udc41"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn truncation_counts_columns_not_characters() {
        assert_eq!(truncate_to_width("short", 5), "short");
        assert_eq!(truncate_to_width("longer than that", 8), "longer…");
        assert_eq!(truncate_to_width("日本語です", 5), "日本…");
        assert_eq!(truncate_to_width("ab", 1), "…");
        assert_eq!(truncate_start("src/a/b.rs", 6), "…/b.rs");
        assert_eq!(truncate_start("日本語です", 5), "…です");
    }

    #[test]
    fn lines_break_between_words_and_keep_their_indent() {
        let text = "  - one two three four five six\n\nx";
        assert_eq!(wrap(text, Some(20)), ["  - one two three", "  four five six", "", "x"]);
        assert_eq!(wrap(text, None).len(), 3);
        let long = "y".repeat(45);
        assert_eq!(wrap(&long, Some(20)).len(), 3);
        assert!(wrap(&long, Some(20)).iter().all(|line| display_width(line) <= 20));
    }
}
