//! Three-way merges of text, line by line.

use gix::diff::blob::{Algorithm, InternedInput};
use gix::merge::blob::Resolution;
use gix::merge::blob::builtin_driver::text;
use gix::merge::blob::builtin_driver::text::{Conflict, Labels, Options};

/// Bytes looked at to tell a binary file, as git does.
const SNIFFED: usize = 8000;

/// What came of a merge.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Merged {
    Text(Vec<u8>),
    Overlap,
    NotText,
}

/// Applies to `ours` what leads from `base` to `theirs`.
pub(super) fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Merged {
    let is_text = |bytes: &&[u8]| !bytes.iter().take(SNIFFED).any(|byte| *byte == 0);
    if ![base, ours, theirs].iter().all(is_text) {
        return Merged::NotText;
    }
    let mut out = Vec::new();
    let mut input = InternedInput::default();
    let options = Options { diff_algorithm: Algorithm::Histogram, conflict: Conflict::default() };
    let labels = Labels::default();
    match text(&mut out, &mut input, labels, ours, base, theirs, options) {
        Resolution::Complete => Merged::Text(out),
        Resolution::CompleteWithAutoResolvedConflict | Resolution::Conflict => Merged::Overlap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_in_different_lines_are_joined_and_overlaps_are_not() {
        let base = b"1\n2\n3\n4\n5\n";
        let joined = merge(base, b"1\n2\n3\n4\nfive\n", b"one\n2\n3\n4\n5\n");
        assert_eq!(joined, Merged::Text(b"one\n2\n3\n4\nfive\n".to_vec()));
        assert_eq!(merge(base, b"1\nx\n3\n4\n5\n", b"1\ny\n3\n4\n5\n"), Merged::Overlap);
        assert_eq!(merge(b"\0", b"a", b"b"), Merged::NotText);
    }
}
