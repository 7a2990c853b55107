//! Writes on behalf of a tool: swapped and judged, guarded by a capture of the caller's.

use std::collections::BTreeSet;
use std::path::Path;

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    ConditionalWrite, ConflictReason, PathImage, PinGroup, RelPath, SnapshotHandle, SnapshotOptions,
};

const NOW: EpochMillis = EpochMillis(1_767_225_600_000);

struct FileWriteFixture {
    dir: tempfile::TempDir,
    handle: SnapshotHandle,
}

impl FileWriteFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        fs_err::create_dir(dir.path().join("work")).expect("made");
        let handle = open(dir.path());
        Self { dir, handle }
    }

    fn put(&self, name: &str, text: &str) {
        fs_err::write(self.dir.path().join("work").join(name), text).expect("written");
    }

    fn read(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.dir.path().join("work").join(name)).ok()
    }

    fn write(
        &self,
        handle: &SnapshotHandle,
        name: &str,
        expected: PathImage,
        text: &str,
    ) -> Vec<ConflictReason> {
        let path: RelPath = name.parse().expect("a path");
        let paths = BTreeSet::from([path.clone()]);
        let group = PinGroup::new("one");
        let guard = handle.capture_named(&group, &paths, true, NOW).expect("captured").capture;
        let write = ConditionalWrite { path, expected, bytes: Some(text.as_bytes().to_vec()) };
        let report = handle.write_files(&[write], &guard, NOW).expect("an answer");
        report.conflicts.into_iter().map(|conflict| conflict.why).collect()
    }
}

fn open(dir: &Path) -> SnapshotHandle {
    let (data, work) = (dir.join("data"), dir.join("work"));
    fs_err::create_dir_all(&data).expect("made");
    SnapshotHandle::open(&data, None, &work, SnapshotOptions::default(), NOW).expect("opens")
}

fn image(handle: &SnapshotHandle, name: &str) -> PathImage {
    handle.reader().read_path(&name.parse().expect("a path")).expect("seen").image
}

/// Proves R15.
#[test]
fn file_is_written_only_if_it_matches_the_expected_image() {
    let case = FileWriteFixture::new();
    case.put("f", "one");
    let one = image(&case.handle, "f");
    assert_eq!(case.write(&case.handle, "f", one, "two"), []);
    assert_eq!(case.read("f").as_deref(), Some("two"));
    assert_eq!(case.write(&case.handle, "f", one, "three"), [ConflictReason::Changed]);
    assert_eq!(
        case.write(&case.handle, "f", PathImage::Absent, "three"),
        [ConflictReason::Changed]
    );
    assert_eq!(case.read("f").as_deref(), Some("two"));
    assert_eq!(case.write(&case.handle, "new/one", PathImage::Absent, "made"), []);
    assert_eq!(case.read("new/one").as_deref(), Some("made"));
    let seen = case.handle.reader().read_path(&"f".parse().expect("a path")).expect("seen");
    assert_eq!(seen.bytes.as_deref(), Some(&b"two"[..]));
    assert!(seen.modified.is_some());
    assert!(case.handle.reader().list_operations().expect("read").is_empty(), "it is no operation");
}

/// Proves R11.
#[test]
fn client_writes_files_through_the_owner() {
    let case = FileWriteFixture::new();
    let other = open(case.dir.path());
    assert!(case.handle.is_owner() && !other.is_owner());
    case.put("f", "one");
    let one = image(&other, "f");
    assert_eq!(case.write(&other, "f", one, "two"), []);
    assert_eq!(case.write(&other, "f", one, "three"), [ConflictReason::Changed]);
    assert_eq!(case.read("f").as_deref(), Some("two"));
}

/// Proves R42.
#[test]
fn baseline_exists_after_first_full_capture() {
    let case = FileWriteFixture::new();
    case.put("f", "one");
    let one = image(&case.handle, "f");
    case.write(&case.handle, "f", one, "two");
    assert!(!case.handle.reader().has_baseline(), "named paths are no baseline");
    case.handle.capture(&PinGroup::new("one"), NOW).expect("captured");
    assert!(case.handle.reader().has_baseline());
    assert!(open(case.dir.path()).reader().has_baseline(), "everybody knows");
}
