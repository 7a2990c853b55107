//! The wildcard of permission rules, as OpenCode reads it.

/// True if `text` matches `pattern` as a whole.
///
/// `*` matches any characters, including `/` and line breaks; `?` matches exactly one character; all
/// others match themselves. `\` counts as `/` on both sides. A pattern that ends in ` *` also matches without that
/// tail, so that `ls *` covers a bare `ls`. Case matters.
///
/// Never backtracks over a `*`: the time is linear in both lengths, and where `?` is used at most
/// their product.
#[must_use]
pub fn matches_wildcard(text: &str, pattern: &str) -> bool {
    let text = text.replace('\\', "/");
    let pattern = pattern.replace('\\', "/");
    matches_whole(&text, &pattern)
        || pattern.strip_suffix(" *").is_some_and(|head| matches_whole(&text, head))
}

/// Matches literal pieces between the stars: the first and the last are anchored, each of the
/// others is taken where it comes first, which leaves the most room for those after it.
fn matches_whole(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return strip_piece(text, pattern).is_some_and(str::is_empty);
    };
    let Some(mut text) = strip_piece(text, first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*') {
        match after_first_piece(text, piece) {
            Some(rest) => text = rest,
            None => return false,
        }
    }
    ends_with_piece(text, last)
}

/// The rest of `text` after the prefix `piece`.
fn strip_piece<'t>(text: &'t str, piece: &str) -> Option<&'t str> {
    if !piece.contains('?') {
        return text.strip_prefix(piece);
    }
    let mut rest = text.chars();
    let fits = piece
        .chars()
        .all(|wanted| rest.next().is_some_and(|found| wanted == '?' || wanted == found));
    fits.then_some(rest.as_str())
}

/// What follows `piece` where it comes first in `text`.
fn after_first_piece<'t>(text: &'t str, piece: &str) -> Option<&'t str> {
    if !piece.contains('?') {
        return text.find(piece).and_then(|at| text.get(at + piece.len()..));
    }
    text.char_indices().find_map(|(at, _)| strip_piece(text.get(at..)?, piece))
}

fn ends_with_piece(text: &str, piece: &str) -> bool {
    if !piece.contains('?') {
        return text.ends_with(piece);
    }
    let mut rest = text.chars().rev();
    piece
        .chars()
        .rev()
        .all(|wanted| rest.next().is_some_and(|found| wanted == '?' || wanted == found))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_match_slashes_and_newlines() {
        assert!(matches_wildcard("src/deep/a.rs", "src/*"));
        assert!(matches_wildcard("echo a\necho b", "echo *"));
        assert!(matches_wildcard("", "*"));
        assert!(matches_wildcard("anything", "**"));
        assert!(matches_wildcard("a.env.b", "*.env.*"));
        assert!(!matches_wildcard("a.envb", "*.env.*"));
    }

    #[test]
    fn pattern_is_anchored_and_literal() {
        assert!(matches_wildcard("rm", "rm"));
        assert!(!matches_wildcard("rm -rf", "rm"));
        assert!(!matches_wildcard("/bin/rm", "rm"));
        assert!(matches_wildcard("a.b(c)[d]+$^|{e}", "a.b(c)[d]+$^|{e}"));
        assert!(!matches_wildcard("axb", "a.b"));
        assert!(!matches_wildcard("LS", "ls"));
    }

    #[test]
    fn question_mark_matches_one_character() {
        assert!(matches_wildcard("cat", "c?t"));
        assert!(matches_wildcard("cät", "c?t"));
        assert!(!matches_wildcard("ct", "c?t"));
        assert!(!matches_wildcard("caat", "c?t"));
        assert!(matches_wildcard("a-1-b-22-c", "*-??-?"));
        assert!(!matches_wildcard("x", "??"));
        assert!(!matches_wildcard("ab", "a*?b"));
    }

    #[test]
    fn backslashes_equal_slashes() {
        assert!(matches_wildcard(r"C:\src\a.rs", "C:/src/*"));
        assert!(matches_wildcard("C:/src/a.rs", r"C:\src\*"));
    }

    #[test]
    fn trailing_space_star_is_optional() {
        assert!(matches_wildcard("ls", "ls *"));
        assert!(matches_wildcard("ls -la", "ls *"));
        assert!(matches_wildcard("ls ", "ls *"));
        assert!(!matches_wildcard("lsof", "ls *"));
        assert!(!matches_wildcard("ls", "ls -*"));
        assert!(matches_wildcard("git status", "git * *"));
        assert!(!matches_wildcard("git", "git * *"));
    }

    #[test]
    fn anchored_pieces_do_not_overlap() {
        assert!(!matches_wildcard("aba", "ab*ba"));
        assert!(matches_wildcard("abba", "ab*ba"));
        assert!(!matches_wildcard("a", "a*a"));
        assert!(!matches_wildcard("ab", "a?*?b"));
    }

    #[test]
    fn hostile_patterns_match_in_linear_time() {
        let text = "a".repeat(20_000);
        assert!(!matches_wildcard(&text, &format!("{}b", "a*".repeat(5_000))));
        assert!(!matches_wildcard(&text, &format!("{}b", "*a".repeat(15_000))));
        assert!(!matches_wildcard(&text, &format!("*{}b*", "a".repeat(10_000))));
        assert!(!matches_wildcard(&text, &format!("{}b", "?*".repeat(5_000))));
        assert!(!matches_wildcard(&text[..2_000], &format!("*{}b*", "?a".repeat(500))));
        assert!(matches_wildcard(&text, &"*a".repeat(20_000)));
    }

    /// The plain recursive meaning of a pattern, on short inputs.
    fn naive(text: &[char], pattern: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some(('*', rest)), None) => naive(text, rest),
            (Some(('*', rest)), Some((_, tail))) => naive(text, rest) || naive(tail, pattern),
            (Some((p, rest)), Some((t, tail))) => (*p == '?' || p == t) && naive(tail, rest),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn section_9_1_matching_agrees_with_the_plain_meaning(
            text in "[ab /\\n]{0,9}",
            pattern in "[ab?* /]{0,7}",
        ) {
            let chars = |s: &str| s.chars().collect::<Vec<_>>();
            let short = pattern.strip_suffix(" *").map(chars);
            let expected = naive(&chars(&text), &chars(&pattern))
                || short.is_some_and(|short| naive(&chars(&text), &short));
            prop_assert_eq!(matches_wildcard(&text, &pattern), expected);
        }
    }
}
