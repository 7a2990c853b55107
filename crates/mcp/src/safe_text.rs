//! Text of servers without control characters, within bounds.

/// What marks text that was cut.
const ELLIPSIS: char = '…';

/// Returns a text without control characters except line ends and tabs, cut to about `limit` bytes.
#[must_use]
pub fn clean_text(text: &str, limit: usize) -> String {
    clean(text, limit, |letter| matches!(letter, '\n' | '\t'))
}

/// Returns a text as one line without control characters, cut to about `limit` bytes.
#[must_use]
pub fn clean_line(text: &str, limit: usize) -> String {
    let line = clean(text, limit, |_| false);
    line.trim().to_owned()
}

fn clean(text: &str, limit: usize, is_kept: impl Fn(char) -> bool) -> String {
    let mut cleaned = String::with_capacity(text.len().min(limit));
    for letter in text.chars() {
        let letter = match letter {
            letter if is_kept(letter) => letter,
            '\n' | '\t' => ' ',
            letter if is_unsafe(letter) => continue,
            letter => letter,
        };
        if cleaned.len() + letter.len_utf8() > limit {
            cleaned.push(ELLIPSIS);
            break;
        }
        cleaned.push(letter);
    }
    cleaned
}

/// True for characters that change how others are shown, or that are not shown at all: a person who is asked must
/// see what a model reads.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Directions of text.
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Not visible: spaces without width, fillers, tags that spell text.
            | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}' | '\u{00ad}'
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
            // Lines that no line count sees.
            | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_removed() {
        assert_eq!(clean_text("a\x1b[31mb\r\n\tc\0\u{7f}\u{9b}", 100), "a[31mb\n\tc");
        assert_eq!(clean_line(" a\nb\tc\u{202e}d\u{200b}e ", 100), "a b cde");
        let tags: String =
            "rm -rf".chars().filter_map(|c| char::from_u32(0xe0000 + c as u32)).collect();
        assert_eq!(clean_text(&format!("safe{tags}"), 100), "safe");
        assert_eq!(clean_text("familie 👨‍👩‍👧 ä", 100), "familie 👨‍👩‍👧 ä", "joined characters stay");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(clean_text("ääää", 5), "ää…");
        assert_eq!(clean_text("ab", 2), "ab");
        assert_eq!(clean_text(&"x".repeat(1 << 20), 10).len(), 13);
    }
}
