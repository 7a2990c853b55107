//! How much of a difference fits one event.

use turnstone_core::model::SessionFileDiff;

/// The bytes of one event: a transaction holds several (R23).
const MAX_EVENT_BYTES: usize = 1 << 20;
/// About what a file needs in addition to its name and patch.
const FILE_OVERHEAD_BYTES: usize = 128;

/// True unless so many files are too much for one event whatever they are called.
pub(crate) const fn can_fit_event(files: usize) -> bool {
    files <= MAX_EVENT_BYTES / FILE_OVERHEAD_BYTES
}

/// The files as the event lists them: patches are omitted where they are too large, counts are not.
/// Nothing if the names alone are too much: a short list would look like a whole one.
pub(crate) fn trim_to_event(mut files: Vec<SessionFileDiff>) -> Option<Vec<SessionFileDiff>> {
    let names: usize = files.iter().map(|file| length(&file.file) + FILE_OVERHEAD_BYTES).sum();
    let mut left = MAX_EVENT_BYTES.checked_sub(names)?;
    for file in &mut files {
        match left.checked_sub(length(&file.patch)) {
            Some(rest) => left = rest,
            None => file.patch = None,
        }
    }
    Some(files)
}

/// About how many bytes the event of a difference has.
pub(crate) fn event_bytes(files: &[SessionFileDiff]) -> usize {
    let bytes =
        |file: &SessionFileDiff| length(&file.file) + length(&file.patch) + FILE_OVERHEAD_BYTES;
    files.iter().map(bytes).sum()
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: usize, patch: usize) -> SessionFileDiff {
        let json = serde_json::json!({ "file": "n".repeat(name), "patch": "p".repeat(patch),
            "additions": 1, "deletions": 0, "status": "added" });
        serde_json::from_value(json).expect("a file")
    }

    /// Proves R23.
    #[test]
    fn large_diff_loses_patches_then_is_omitted() {
        let files = vec![file(3, MAX_EVENT_BYTES / 2), file(3, MAX_EVENT_BYTES), file(3, 10)];
        let shown = trim_to_event(files.clone()).expect("fits");
        let patches: Vec<bool> = shown.iter().map(|file| file.patch.is_some()).collect();
        assert_eq!(patches, [true, false, true]);
        assert_eq!(shown[1].additions, files[1].additions);
        let text = serde_json::to_string(&shown).expect("JSON");
        assert!(text.len() <= MAX_EVENT_BYTES, "{}", text.len());

        assert_eq!(trim_to_event(vec![file(MAX_EVENT_BYTES, 1)]), None);
        assert!(can_fit_event(8_000) && !can_fit_event(9_000));
        assert_eq!(trim_to_event(Vec::new()), Some(Vec::new()));
    }
}
