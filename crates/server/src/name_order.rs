//! The order of names that clients show: that of JavaScript's `localeCompare`, which OpenCode sorts with.

use std::cmp::Ordering;

/// The printable characters of ASCII that are neither digits nor letters, in the order of Unicode's root
/// collation.
const PUNCTUATION: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Compares two names: first without regard to case, then small letters before capital ones. Beyond
/// ASCII the order is that of the code points, after all letters.
pub(crate) fn compare_names(one: &str, other: &str) -> Ordering {
    let base = |name: &str| -> Vec<(u8, u32)> { name.chars().map(collation_rank).collect() };
    let capitals = |name: &str| -> Vec<bool> { name.chars().map(|c| c.is_uppercase()).collect() };
    base(one)
        .cmp(&base(other))
        .then_with(|| capitals(one).cmp(&capitals(other)))
        .then_with(|| one.cmp(other))
}

/// The class of a character, and its place in the class; the same for both cases of a letter.
fn collation_rank(character: char) -> (u8, u32) {
    let small = character.to_ascii_lowercase();
    match PUNCTUATION.chars().position(|it| it == character) {
        Some(place) => (0, place as u32),
        None if small.is_ascii_digit() => (1, u32::from(small)),
        None => (2, u32::from(small)),
    }
}

#[cfg(test)]
mod tests {
    use super::compare_names;

    /// As `["Z", "B", …].sort((a, b) => a.localeCompare(b))` sorts them in the `en` locale.
    #[test]
    fn names_are_sorted_as_javascript_does() {
        let sorted = [
            "_x", "-y", ".git", ".h", "(x)", "[id].ts", "@types", "#1", "~a", "$a", "10", "9", "a",
            "A", "a b", "a_b", "a-b", "a.b", "a10", "a2", "ab", "aB", "Ab", "b", "B", "Z",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|one, other| compare_names(one, other));
        assert_eq!(names, sorted);
    }
}
