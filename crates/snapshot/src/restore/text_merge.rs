//! Three-way merges of text, line by line.

use gix::diff::blob::{Algorithm, InternedInput};
use gix::merge::blob::Resolution;
use gix::merge::blob::builtin_driver::text;
use gix::merge::blob::builtin_driver::text::{Conflict, Labels, Options};

/// How many bytes are checked to recognise a binary file, as in git.
const BINARY_SNIFF_BYTES: usize = 8000;

/// What came of a merge.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextMerge {
    Text(Vec<u8>),
    Overlap,
    NotText,
}

/// Applies to `ours` what leads from `base` to `theirs`.
pub(super) fn merge_text(base: &[u8], ours: &[u8], theirs: &[u8]) -> TextMerge {
    if ![base, ours, theirs].into_iter().all(is_text) {
        return TextMerge::NotText;
    }
    let mut out = Vec::new();
    let mut input = InternedInput::default();
    let options = Options { diff_algorithm: Algorithm::Histogram, conflict: Conflict::default() };
    let labels = Labels::default();
    match text(&mut out, &mut input, labels, ours, base, theirs, options) {
        Resolution::Complete => TextMerge::Text(out),
        Resolution::CompleteWithAutoResolvedConflict | Resolution::Conflict => TextMerge::Overlap,
    }
}

/// Finds the lines of `now` that were added before or after all of `base`; `None` if anything else
/// was changed, or one of them is no text.
pub(super) fn find_added_text(base: &[u8], now: &[u8]) -> Option<Vec<u8>> {
    if base.is_empty() {
        return Some(now.to_vec());
    }
    if !is_text(base) || !is_text(now) {
        return None;
    }
    let after = now.strip_prefix(base).filter(|_| base.ends_with(b"\n"));
    let before = || now.strip_suffix(base).filter(|lines| lines.ends_with(b"\n"));
    after.or_else(before).map(<[u8]>::to_vec)
}

/// True if git would call it text.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.iter().take(BINARY_SNIFF_BYTES).any(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disjoint_line_changes_merge_and_overlaps_do_not() {
        let base = b"1\n2\n3\n4\n5\n";
        let joined = merge_text(base, b"1\n2\n3\n4\nfive\n", b"one\n2\n3\n4\n5\n");
        assert_eq!(joined, TextMerge::Text(b"one\n2\n3\n4\nfive\n".to_vec()));
        assert_eq!(merge_text(base, b"1\nx\n3\n4\n5\n", b"1\ny\n3\n4\n5\n"), TextMerge::Overlap);
        assert_eq!(merge_text(b"\0", b"a", b"b"), TextMerge::NotText);
    }

    #[test]
    fn only_lines_added_around_a_text_are_found() {
        let added = |base: &str, now: &str| {
            let added = find_added_text(base.as_bytes(), now.as_bytes());
            added.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        assert_eq!(added("a\nb\n", "a\nb\nmine\n").as_deref(), Some("mine\n"));
        assert_eq!(added("a\nb\n", "mine\na\nb\n").as_deref(), Some("mine\n"));
        assert_eq!(added("", "mine\n").as_deref(), Some("mine\n"));
        assert_eq!(added("a", "ab\n"), None, "one line of both");
        assert_eq!(added("a\n", "ba\n"), None);
        assert_eq!(added("a\nb\n", "a\nB\n"), None);
        assert_eq!(added("a\n", "a\n\0"), None, "not text");
    }
}
