//! Replaces a text in a file: exactly one place, or every place that is meant.

use super::strategy::STRATEGIES;

/// Why nothing was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReplaceError {
    /// The text is not in the file.
    #[error(
        "oldString was not found in the file. It must match the content of the file exactly, with all \
         white space; read the file again and copy the text from there."
    )]
    NotFound,
    /// The text is in the file more than once.
    #[error(
        "oldString matches several places in the file. Add lines around it so that it matches one place, \
         or set replaceAll to change all of them."
    )]
    Ambiguous,
    /// What was found is far larger than what was asked for.
    #[error(
        "oldString only matches a much larger part of the file loosely, so nothing was replaced. Read the \
         file again and copy the exact text."
    )]
    Disproportionate,
}

/// Replaces `old` in `file` by `new`: the only place that it can mean, or all if `all`.
pub(super) fn replace_text(
    file: &str,
    (old, new): (&str, &str),
    all: bool,
) -> Result<String, ReplaceError> {
    let mut is_found = false;
    for find in STRATEGIES {
        for candidate in find(file, old) {
            if candidate.is_empty() {
                continue;
            }
            let Some(first) = file.find(candidate) else { continue };
            is_found = true;
            if is_disproportionate(old, candidate) {
                return Err(ReplaceError::Disproportionate);
            }
            if all {
                return Ok(file.replace(candidate, new));
            }
            if file.rfind(candidate) != Some(first) {
                continue;
            }
            let (before, rest) = file.split_at(first);
            let after = rest.get(candidate.len()..).unwrap_or_default();
            return Ok([before, new, after].concat());
        }
    }
    Err(if is_found { ReplaceError::Ambiguous } else { ReplaceError::NotFound })
}

/// True if a stretch is so much larger than the wanted text that it cannot be what is meant.
fn is_disproportionate(old: &str, candidate: &str) -> bool {
    let lines = |text: &str| text.split('\n').count();
    let (old_lines, found_lines) = (lines(old), lines(candidate));
    let (old_length, found_length) = (old.trim().len(), candidate.trim().len());
    found_lines >= (old_lines + 3).max(2 * old_lines)
        || (old_lines > 1 && found_length > (old_length + 500).max(4 * old_length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replace(file: &str, old: &str, new: &str) -> Result<String, ReplaceError> {
        replace_text(file, (old, new), false)
    }

    #[test]
    fn one_place_is_replaced() {
        assert_eq!(replace("a b a", "b", "c").as_deref(), Ok("a c a"));
        assert_eq!(replace("a b a", "a", "c"), Err(ReplaceError::Ambiguous));
        assert_eq!(replace("aaa", "aa", "c"), Err(ReplaceError::Ambiguous));
        assert_eq!(replace("a b a", "z", "c"), Err(ReplaceError::NotFound));
        assert_eq!(replace("", "z", "c"), Err(ReplaceError::NotFound));
        // `$&` and the like mean nothing.
        assert_eq!(replace("a", "a", "$&$1").as_deref(), Ok("$&$1"));
    }

    #[test]
    fn all_places_are_replaced_on_demand() {
        assert_eq!(replace_text("a b a", ("a", "c"), true).as_deref(), Ok("c b c"));
        assert_eq!(replace_text("a", ("b", "c"), true), Err(ReplaceError::NotFound));
    }

    #[test]
    fn wrong_indentation_is_forgiven_and_the_new_text_is_taken_as_it_is() {
        let file = "fn main() {\n        one();\n        two();\n}\n";
        assert_eq!(
            replace(file, "    one();\n    two();", "    three();").as_deref(),
            Ok("fn main() {\n    three();\n}\n")
        );
        // The line end that belongs to the old text goes with it.
        assert_eq!(
            replace(file, "one();\ntwo();\n", "three();\n").as_deref(),
            Ok("fn main() {\nthree();\n}\n")
        );
    }

    #[test]
    fn loose_anchors_around_other_code_are_refused() {
        let file = "if a {\n  one();\n  two();\n  three();\n}\n";
        let old = "if a {\n  entirely();\n  different();\n  code();\n}";
        assert_eq!(replace(file, old, "x"), Err(ReplaceError::NotFound));
    }

    #[test]
    fn much_larger_match_is_refused() {
        assert!(is_disproportionate("a", "a\nb\nc\nd"));
        assert!(!is_disproportionate("a", "a\nb\nc"));
        assert!(is_disproportionate("a\nb", &format!("a\n{}", "x".repeat(600))));
    }

    proptest! {
        /// What is not replaced stays: the new file is the old one with one stretch exchanged.
        #[test]
        fn replacement_loses_nothing_around_it(
            file in "[ab \\n\\t{}]{0,60}", old in "[ab \\n{}]{1,12}", new in "[xyz\\n]{0,8}",
        ) {
            if let Ok(result) = replace(&file, &old, &new) {
                let before = file.bytes().zip(result.bytes()).take_while(|(a, b)| a == b).count();
                let fits = (0..=before).any(|start| {
                    file.is_char_boundary(start)
                        && result.get(start..).is_some_and(|rest| rest.starts_with(&new))
                        && file.ends_with(result.get(start + new.len()..).unwrap_or("\u{0}"))
                        && file.len() >= result.len() - new.len()
                });
                prop_assert!(fits, "{file:?} {old:?} {new:?} {result:?}");
            }
        }

        /// A text that is in the file once is replaced there, whatever it is.
        #[test]
        fn unique_text_is_replaced_exactly(
            before in "[a-c\\n ]{0,30}", after in "[a-c\\n ]{0,30}", new in "\\PC{0,8}",
        ) {
            let file = format!("{before}UNIQUE{after}");
            prop_assert_eq!(replace(&file, "UNIQUE", &new), Ok(format!("{before}{new}{after}")));
        }
    }
}
