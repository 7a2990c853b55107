//! Writes on behalf of a tool: swapped and judged, guarded by a capture of the caller's.

use std::collections::BTreeSet;
use std::path::Path;

use turnstone_core::time::Millis;
use turnstone_snapshot::{FileWrite, Group, Image, RelPath, Vault, VaultOptions, Why};

const NOW: Millis = Millis(1_767_225_600_000);

struct Case {
    dir: tempfile::TempDir,
    vault: Vault,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        fs_err::create_dir(dir.path().join("work")).expect("made");
        let vault = open(dir.path());
        Self { dir, vault }
    }

    fn put(&self, name: &str, text: &str) {
        fs_err::write(self.dir.path().join("work").join(name), text).expect("written");
    }

    fn read(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.dir.path().join("work").join(name)).ok()
    }

    fn write(&self, vault: &Vault, name: &str, expected: Image, text: &str) -> Vec<Why> {
        let path: RelPath = name.parse().expect("a path");
        let paths = BTreeSet::from([path.clone()]);
        let group = Group::new("one");
        let guard = vault.capture_named(&group, &paths, true, NOW).expect("captured").capture;
        let write = FileWrite { path, expected, bytes: Some(text.as_bytes().to_vec()) };
        let report = vault.write(&[write], &guard, NOW).expect("an answer");
        report.conflicts.into_iter().map(|conflict| conflict.why).collect()
    }
}

fn open(dir: &Path) -> Vault {
    let (data, work) = (dir.join("data"), dir.join("work"));
    fs_err::create_dir_all(&data).expect("made");
    Vault::open(&data, None, &work, VaultOptions::default(), NOW).expect("opens")
}

fn image(vault: &Vault, name: &str) -> Image {
    vault.see(&name.parse().expect("a path")).expect("seen").image
}

#[test]
fn a_file_is_written_only_if_it_is_what_the_writer_believes_r15() {
    let case = Case::new();
    case.put("f", "one");
    let one = image(&case.vault, "f");
    assert_eq!(case.write(&case.vault, "f", one, "two"), []);
    assert_eq!(case.read("f").as_deref(), Some("two"));
    assert_eq!(case.write(&case.vault, "f", one, "three"), [Why::Changed]);
    assert_eq!(case.write(&case.vault, "f", Image::Absent, "three"), [Why::Changed]);
    assert_eq!(case.read("f").as_deref(), Some("two"));
    assert_eq!(case.write(&case.vault, "new/one", Image::Absent, "made"), []);
    assert_eq!(case.read("new/one").as_deref(), Some("made"));
    let seen = case.vault.see(&"f".parse().expect("a path")).expect("seen");
    assert_eq!(seen.bytes.as_deref(), Some(&b"two"[..]));
    assert!(seen.modified.is_some());
    assert!(case.vault.list_operations().expect("read").is_empty(), "it is no operation");
}

#[test]
fn who_does_not_keep_the_store_writes_through_the_keeper_r11() {
    let case = Case::new();
    let other = open(case.dir.path());
    assert!(case.vault.is_keeper() && !other.is_keeper());
    case.put("f", "one");
    let one = image(&other, "f");
    assert_eq!(case.write(&other, "f", one, "two"), []);
    assert_eq!(case.write(&other, "f", one, "three"), [Why::Changed]);
    assert_eq!(case.read("f").as_deref(), Some("two"));
}

#[test]
fn there_is_a_baseline_once_the_whole_was_captured_r42() {
    let case = Case::new();
    case.put("f", "one");
    let one = image(&case.vault, "f");
    case.write(&case.vault, "f", one, "two");
    assert!(!case.vault.has_baseline(), "named paths are no baseline");
    case.vault.track(&Group::new("one"), NOW).expect("captured");
    assert!(case.vault.has_baseline());
    assert!(open(case.dir.path()).has_baseline(), "everybody knows");
}
