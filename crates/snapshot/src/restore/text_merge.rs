//! Three-way merges of text, line by line.

use gix::diff::blob::{Algorithm, InternedInput};
use gix::merge::blob::Resolution;
use gix::merge::blob::builtin_driver::text;
use gix::merge::blob::builtin_driver::text::{Conflict, Labels, Options};

/// Bytes looked at to tell a binary file, as git does.
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
    let is_text = |bytes: &&[u8]| !bytes.iter().take(BINARY_SNIFF_BYTES).any(|byte| *byte == 0);
    if ![base, ours, theirs].iter().all(is_text) {
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
}
