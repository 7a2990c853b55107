//! Words of a text: where FTS5 sees one, and the words inside camelCase identifiers.

use std::collections::HashSet;
use std::ops::Range;

use super::case_folding::{fold_char, is_combining_mark};

/// True for what `unicode61` makes words of: letters, numbers, private use.
fn is_token_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{E000}'..='\u{F8FF}')
}

/// The words of `text`, by byte range, in order.
pub(super) fn words(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text.get(at..)?.find(is_token_char)?;
        let rest = &text[start..];
        let len = rest.find(|c| !is_token_char(c) && !is_combining_mark(c)).unwrap_or(rest.len());
        at = start + len;
        Some(start..at)
    })
}

/// The folded form of a word.
pub(super) fn fold_word(word: &str) -> String {
    word.chars().filter_map(fold_char).collect()
}

/// True if `word` is `folded`, or begins with it.
pub(super) fn is_word_match(word: &str, folded: &str, prefix: bool) -> bool {
    let mut letters = word.chars().filter_map(fold_char);
    folded.chars().all(|c| letters.next() == Some(c)) && (prefix || letters.next().is_none())
}

/// The words inside an identifier such as `parseHTTPHeader`; nothing if it has only one.
pub(super) fn split_camel_case(word: &str) -> Vec<Range<usize>> {
    let mut cuts = vec![0];
    let mut letters = word.char_indices().peekable();
    let mut before: Option<char> = None;
    while let Some((at, c)) = letters.next() {
        if let Some(before) = before.filter(|_| c.is_uppercase()) {
            let next_is_small = letters.peek().is_some_and(|(_, n)| n.is_lowercase());
            let after_small = before.is_lowercase() || before.is_numeric();
            if after_small || (before.is_uppercase() && next_is_small) {
                cuts.push(at);
            }
        }
        before = Some(c);
    }
    if cuts.len() == 1 {
        return Vec::new();
    }
    cuts.push(word.len());
    cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// The words inside the camelCase identifiers of `text`, each identifier once, at most `limit`
/// bytes.
pub(super) fn camel_words(text: &str, limit: usize) -> String {
    let mut seen = HashSet::new();
    let mut camel = String::new();
    for range in words(text) {
        let word = &text[range];
        let humps = split_camel_case(word);
        if humps.is_empty() || !seen.insert(word) {
            continue;
        }
        if camel.len() + word.len() + humps.len() > limit {
            break;
        }
        for hump in humps {
            camel.push_str(&word[hump]);
            camel.push(' ');
        }
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<&str> {
        words(text).map(|r| &text[r]).collect()
    }

    #[test]
    fn words_split_at_non_alphanumerics() {
        assert_eq!(
            all("let foo_bar = src/a.rs; // 漢字!"),
            ["let", "foo", "bar", "src", "a", "rs", "漢字"]
        );
        assert_eq!(all("🙂 \0 *\"():"), Vec::<&str>::new());
        assert_eq!(all("u\u{308}ber-x"), ["u\u{308}ber", "x"]);
    }

    #[test]
    fn camel_case_identifiers_split_into_words() {
        let split = |word: &'static str| {
            split_camel_case(word).into_iter().map(|r| &word[r]).collect::<Vec<_>>()
        };
        assert_eq!(split("parseHTTPHeader"), ["parse", "HTTP", "Header"]);
        assert_eq!(split("utf8Len"), ["utf8", "Len"]);
        assert_eq!(split("plain"), Vec::<&str>::new());
        assert_eq!(split("URL"), Vec::<&str>::new());
        assert_eq!(camel_words("fooBar fooBar x Baz", 100), "foo Bar ");
    }
}
