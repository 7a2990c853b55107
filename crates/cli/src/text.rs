//! Text for terminals: made harmless, cut and wrapped by what it takes on the screen.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A text on one line that can do nothing to a terminal.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text, |c| if matches!(c, '\n' | '\r' | '\t') { Some(' ') } else { None })
}

/// A text of several lines that can do nothing to a terminal.
pub(crate) fn clean_block(text: &str) -> String {
    clean(&text.replace("\r\n", "\n").replace('\t', "    "), |c| (c == '\n').then_some(c))
}

/// Replaces what could move the cursor, change colours or turn the writing direction.
fn clean(text: &str, kept: impl Fn(char) -> Option<char>) -> String {
    let safe = |c: char| match c {
        _ if kept(c).is_some() => kept(c).unwrap_or(c),
        '\0'..='\u{1f}' => char::from_u32(u32::from(c) + 0x2400).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ => c,
    };
    text.chars().map(safe).collect()
}

/// The columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, cut with `…` if it takes more than `limit` columns.
pub(crate) fn cut(text: &str, limit: usize) -> String {
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

/// The lines of a text, broken between words where they take more than `limit` columns.
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
    // What follows is set in as far as the line itself, so that lists and code stay readable.
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
    fn nothing_reaches_the_terminal_that_could_command_it() {
        let hostile = "a\u{1b}[31mred\u{7}\r\nb\u{9b}2J\u{202e}c\td";
        assert_eq!(clean_line(hostile), "a␛[31mred␇  b\u{fffd}2J\u{fffd}c d");
        assert_eq!(clean_block("a\r\nb\u{1b}c\td\u{7f}"), "a\nb␛c    d␡");
    }

    #[test]
    fn a_text_is_cut_by_columns_not_by_letters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer than that", 8), "longer…");
        assert_eq!(cut("日本語です", 5), "日本…");
        assert_eq!(cut("ab", 1), "…");
    }

    #[test]
    fn lines_break_between_words_and_keep_their_indent() {
        let text = "  - one two three four five six\n\nx";
        assert_eq!(wrap(text, Some(20)), ["  - one two three", "  four five six", "", "x"]);
        assert_eq!(wrap(text, None).len(), 3);
        let long = "y".repeat(45);
        assert_eq!(wrap(&long, Some(20)).len(), 3);
        assert!(wrap(&long, Some(20)).iter().all(|line| width(line) <= 20));
    }
}
