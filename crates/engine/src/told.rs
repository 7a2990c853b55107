//! How much of a difference is told in one event.

use turnstone_core::model::FileDiff;

/// The bytes of one event: a transaction holds several (R23).
const MOST: usize = 1 << 20;
/// About what a file takes beside its name and its patch.
const FILE: usize = 128;

/// True unless so many files are too much for one event whatever they are called.
pub(crate) const fn is_tellable(files: usize) -> bool {
    files <= MOST / FILE
}

/// The files as they are told: patches are left out where they would be too much, figures are not.
/// Nothing if the names alone are too much: a short list would look like a whole one.
pub(crate) fn told(mut files: Vec<FileDiff>) -> Option<Vec<FileDiff>> {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let names: usize = files.iter().map(|file| length(&file.file) + FILE).sum();
    let mut left = MOST.checked_sub(names)?;
    for file in &mut files {
        match left.checked_sub(length(&file.patch)) {
            Some(rest) => left = rest,
            None => file.patch = None,
        }
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: usize, patch: usize) -> FileDiff {
        let json = serde_json::json!({ "file": "n".repeat(name), "patch": "p".repeat(patch),
            "additions": 1, "deletions": 0, "status": "added" });
        serde_json::from_value(json).expect("a file")
    }

    #[test]
    fn what_is_too_much_for_one_event_loses_its_patches_and_then_is_not_told_at_all_r23() {
        let files = vec![file(3, MOST / 2), file(3, MOST), file(3, 10)];
        let shown = told(files.clone()).expect("told");
        let patches: Vec<bool> = shown.iter().map(|file| file.patch.is_some()).collect();
        assert_eq!(patches, [true, false, true]);
        assert_eq!(shown[1].additions, files[1].additions);
        let text = serde_json::to_string(&shown).expect("JSON");
        assert!(text.len() <= MOST, "{}", text.len());

        assert_eq!(told(vec![file(MOST, 1)]), None);
        assert!(is_tellable(8_000) && !is_tellable(9_000));
        assert_eq!(told(Vec::new()), Some(Vec::new()));
    }
}
