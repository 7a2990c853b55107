//! Text without the control sequences of terminals: what a command printed, as words that can be read and searched.

use std::borrow::Cow;

const ESC: char = '\u{1b}';
const BEL: char = '\u{7}';

/// Returns the text without escape sequences and control characters.
///
/// Colours, cursor movements and window titles are removed. A carriage return begins its line again, as a progress
/// bar does, and a backspace removes a character. A title or another string that has no end is text.
#[must_use]
pub fn strip_terminal_codes(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut plain = PlainText { text: String::with_capacity(text.len()), line: 0, restarts: false };
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            ESC => rest = skip_escape_sequence(rest),
            '\u{9b}' => rest = skip_control_sequence(rest),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => rest = skip_string(rest),
            c => plain.push(c),
        }
    }
    Cow::Owned(plain.text)
}

/// What the sequences leave.
struct PlainText {
    text: String,
    /// Where the last line begins.
    line: usize,
    /// True after a carriage return: the next character replaces the line.
    restarts: bool,
}

impl PlainText {
    fn push(&mut self, c: char) {
        match c {
            '\r' => self.restarts = true,
            '\n' => {
                self.text.push(c);
                self.line = self.text.len();
                self.restarts = false;
            }
            '\u{8}' => {
                if self.text.len() > self.line {
                    self.text.pop();
                }
            }
            '\t' => self.push_visible(c),
            c if c.is_control() => {}
            c => self.push_visible(c),
        }
    }

    fn push_visible(&mut self, c: char) {
        if std::mem::take(&mut self.restarts) {
            self.text.truncate(self.line);
        }
        self.text.push(c);
    }
}

/// Skips what follows an escape character.
fn skip_escape_sequence(text: &str) -> &str {
    match text.chars().next() {
        Some('[') => skip_control_sequence(&text[1..]),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&text[1..]),
        // Intermediate characters, then a final one: a choice of characters, for example.
        Some(' '..='/') => {
            let rest = text.trim_start_matches(|c| matches!(c, ' '..='/'));
            rest.strip_prefix(|c| matches!(c, '0'..='~')).unwrap_or(rest)
        }
        Some('0'..='~') => &text[1..],
        Some(_) | None => text,
    }
}

/// Skips parameters and the final character; a sequence that is cut off by another character ends there.
fn skip_control_sequence(text: &str) -> &str {
    let rest = text.trim_start_matches(|c| matches!(c, ' '..='?'));
    rest.strip_prefix(|c| matches!(c, '@'..='~')).unwrap_or(rest)
}

/// Skips a string up to its end on the same line; without an end nothing is skipped.
fn skip_string(text: &str) -> &str {
    let end = text.find(|c| matches!(c, BEL | ESC | '\u{9c}' | '\n'));
    let Some(rest) = end.map(|end| &text[end..]) else { return text };
    let terminators = ["\u{1b}\\", "\u{7}", "\u{9c}"];
    terminators.iter().find_map(|end| rest.strip_prefix(end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_leave_the_words() {
        for (printed, read) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m and \u{1b}[1;38;5;208mbold\u{1b}[m", "red and bold"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}]0;a title\u{7}words\u{1b}]8;;http://x\u{1b}\\link", "wordslink"),
            ("\u{1b}(Bascii\u{1b}7\u{1b}=", "ascii"),
            ("one\r\ntwo\r\r\n", "one\ntwo\n"),
            ("10 %\r50 %\r100 %\ndone", "100 %\ndone"),
            ("50 %\r", "50 %"),
            ("N\u{8}NA\u{8}AME \u{8}\u{8}\u{8}\u{8}\u{8}\u{8}x\n\u{8}", "x\n"),
            ("a\0b\u{7f}c\u{85}d", "abcd"),
        ] {
            assert_eq!(strip_terminal_codes(printed), read, "{printed:?}");
        }
        assert!(matches!(strip_terminal_codes("ä\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn sequences_without_an_end_hide_nothing_after_their_line() {
        for (printed, read) in [
            ("\u{1b}]0;open\nsecret", "0;open\nsecret"),
            ("\u{1b}Pnever ends", "never ends"),
            ("\u{1b}[31\nnext", "\nnext"),
            ("\u{1b}", ""),
            ("end\u{1b}[", "end"),
        ] {
            assert_eq!(strip_terminal_codes(printed), read, "{printed:?}");
        }
    }
}
