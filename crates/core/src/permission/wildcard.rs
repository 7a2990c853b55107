//! The wildcard of permission rules, as OpenCode reads it.

/// True if `text` matches `pattern` as a whole.
///
/// `*` stands for any characters, `/` and line breaks included; `?` for exactly one; the rest for
/// itself. `\` counts as `/` on both sides. A pattern that ends in ` *` also matches without that
/// tail, so that `ls *` covers a bare `ls`. Case matters.
///
/// Never backtracks over a `*`: the time is linear in both lengths, and where `?` is used at most
/// their product.
#[must_use]
pub fn matches(text: &str, pattern: &str) -> bool {
    let text = text.replace('\\', "/");
    let pattern = pattern.replace('\\', "/");
    whole(&text, &pattern) || pattern.strip_suffix(" *").is_some_and(|head| whole(&text, head))
}

/// Matches literal pieces between the stars: the first and the last are anchored, each of the
/// others is taken where it comes first, which leaves the most room for those after it.
fn whole(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return prefix(text, pattern).is_some_and(str::is_empty);
    };
    let Some(mut text) = prefix(text, first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*') {
        match after_first(text, piece) {
            Some(rest) => text = rest,
            None => return false,
        }
    }
    is_suffix(text, last)
}

/// What follows `piece` at the beginning of `text`.
fn prefix<'t>(text: &'t str, piece: &str) -> Option<&'t str> {
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
fn after_first<'t>(text: &'t str, piece: &str) -> Option<&'t str> {
    if !piece.contains('?') {
        return text.find(piece).and_then(|at| text.get(at + piece.len()..));
    }
    text.char_indices().find_map(|(at, _)| prefix(text.get(at..)?, piece))
}

fn is_suffix(text: &str, piece: &str) -> bool {
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
    fn section_9_1_stars_cross_slashes_and_line_breaks() {
        assert!(matches("src/deep/a.rs", "src/*"));
        assert!(matches("echo a\necho b", "echo *"));
        assert!(matches("", "*"));
        assert!(matches("anything", "**"));
        assert!(matches("a.env.b", "*.env.*"));
        assert!(!matches("a.envb", "*.env.*"));
    }

    #[test]
    fn section_9_1_a_pattern_is_anchored_and_the_rest_is_literal() {
        assert!(matches("rm", "rm"));
        assert!(!matches("rm -rf", "rm"));
        assert!(!matches("/bin/rm", "rm"));
        assert!(matches("a.b(c)[d]+$^|{e}", "a.b(c)[d]+$^|{e}"));
        assert!(!matches("axb", "a.b"));
        assert!(!matches("LS", "ls"));
    }

    #[test]
    fn section_9_1_a_question_mark_is_one_character() {
        assert!(matches("cat", "c?t"));
        assert!(matches("cät", "c?t"));
        assert!(!matches("ct", "c?t"));
        assert!(!matches("caat", "c?t"));
        assert!(matches("a-1-b-22-c", "*-??-?"));
        assert!(!matches("x", "??"));
        assert!(!matches("ab", "a*?b"));
    }

    #[test]
    fn section_9_1_backslashes_are_slashes_on_both_sides() {
        assert!(matches(r"C:\src\a.rs", "C:/src/*"));
        assert!(matches("C:/src/a.rs", r"C:\src\*"));
    }

    #[test]
    fn section_9_1_a_tail_of_space_and_star_may_be_missing() {
        assert!(matches("ls", "ls *"));
        assert!(matches("ls -la", "ls *"));
        assert!(matches("ls ", "ls *"));
        assert!(!matches("lsof", "ls *"));
        assert!(!matches("ls", "ls -*"));
        assert!(matches("git status", "git * *"));
        assert!(!matches("git", "git * *"));
    }

    #[test]
    fn anchored_pieces_do_not_overlap() {
        assert!(!matches("aba", "ab*ba"));
        assert!(matches("abba", "ab*ba"));
        assert!(!matches("a", "a*a"));
        assert!(!matches("ab", "a?*?b"));
    }

    #[test]
    fn hostile_patterns_take_no_time() {
        let text = "a".repeat(20_000);
        assert!(!matches(&text, &format!("{}b", "a*".repeat(5_000))));
        assert!(!matches(&text, &format!("{}b", "*a".repeat(15_000))));
        assert!(!matches(&text, &format!("*{}b*", "a".repeat(10_000))));
        assert!(!matches(&text, &format!("{}b", "?*".repeat(5_000))));
        assert!(!matches(&text[..2_000], &format!("*{}b*", "?a".repeat(500))));
        assert!(matches(&text, &"*a".repeat(20_000)));
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
            prop_assert_eq!(matches(&text, &pattern), expected);
        }
    }
}
