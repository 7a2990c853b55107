//! Reuse of the user's packs: what is borrowed, that no object is lost, and how it ends.

use turnstone_snapshot::{CaptureOutcome, PathImage, PinGroup};

use crate::checkout::{
    FILE_COUNT, FILES, REPEATS, assert_raw_bytes, assert_reused, checkout_of, commit_and_repack,
    committed_checkout, corrupt_packed_object, default_settings, snapshot_tree,
    swap_packed_objects, wait_past_clock_granularity,
};
use crate::support::{NOW, StoreFixture, path};

/// Proves R10.
#[test]
fn committed_checkout_is_captured_without_reading_files() {
    let case = committed_checkout();
    case.write("untracked", "new\n");

    let captured = assert_reused(&case, FILE_COUNT);

    assert_eq!(captured.capture.tree.to_string(), case.git_write_tree());
    assert_eq!((captured.files, captured.changed), (FILE_COUNT + 1, FILE_COUNT + 1));
    assert!(case.store.inspection().usage().unwrap().borrowed > 0);
    case.git(&["fsck", "--connectivity-only"]);
    assert_eq!(case.capture().capture.id, captured.capture.id);
}

/// Proves R10.
#[test]
fn capture_never_writes_to_the_users_git_dir() {
    let case = committed_checkout();
    let before = snapshot_tree(&case.at(".git"));

    case.capture();
    case.write("a.txt", "changed\n");
    case.capture();
    case.store.packs().release_borrowed_packs().unwrap();
    case.store.collector().gc(&[].into(), NOW, false).unwrap();

    assert!(before == snapshot_tree(&case.at(".git")));
}

/// Proves R10.
#[test]
fn deleting_the_users_repository_keeps_captures_readable() {
    for settle in [false, true] {
        let mut case = committed_checkout();
        let captured = assert_reused(&case, FILE_COUNT);
        assert!(!case.store.git_dir().join("objects/info/alternates").exists());
        fs_err::remove_dir_all(case.at(".git")).unwrap();
        FILES.iter().for_each(|(path, _)| case.remove(path));
        if settle {
            let settled = case.store.packs().release_borrowed_packs().unwrap();
            assert_eq!((settled.returned, settled.lost.len()), (1, 0));
            assert_eq!(case.store.inspection().usage().unwrap().borrowed, 0);
        }
        case.reopen();
        case.git(&["fsck", "--full"]);
        let now = case.capture().capture;
        let then = case.store.captures().get(&captured.capture.id).unwrap();
        let plan = case.store.planner().plan_restore(&then, &now, None, false).unwrap();
        case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).unwrap();
        for (path, text) in FILES {
            assert_eq!(case.read(path), text.repeat(REPEATS));
        }
    }
}

/// Proves R10.
#[test]
fn releasing_borrowed_packs_copies_only_needed_objects() {
    let case = checkout_of(default_settings());
    case.write("old", "in the history only\n".repeat(20));
    commit_and_repack(&case, &[]);
    let old = case.git_in(&case.root(), &["rev-parse", "HEAD:old"]);
    case.remove("old");
    commit_and_repack(&case, &[]);
    assert_reused(&case, FILE_COUNT);
    case.git(&["cat-file", "-e", &old]);

    let settled = case.store.packs().release_borrowed_packs().unwrap();

    // The files, their three trees; the commit is ours already.
    assert_eq!((settled.copied, settled.repaired, settled.returned), (FILE_COUNT + 3, 0, 1));
    assert!(case.git(&["cat-file", "--batch-check", "--batch-all-objects"]).find(&old).is_none());
    case.git(&["fsck", "--full", "--strict"]);
    let again = case.capture();
    assert!(!again.is_new && again.reused == 0);
    assert_eq!(
        case.store.packs().release_borrowed_packs().unwrap(),
        turnstone_snapshot::PackReleaseReport::default()
    );
}

/// Proves R10.
#[test]
fn gc_releases_borrowed_packs_and_never_merges_them() {
    let case = committed_checkout();
    let first = case.capture().capture;
    case.write("a.txt", "two\n");
    case.capture();
    case.write("a.txt", "three\n");
    let last = case.capture().capture;

    case.store.packs().repack(1 << 30).unwrap();
    let usage = case.store.inspection().usage().unwrap();
    assert!(usage.borrowed > 0 && usage.packs == 2);
    let planned = case.store.collector().gc(&[].into(), NOW, true).unwrap();
    assert_eq!(planned.dropped_objects, 0);
    assert!(case.store.inspection().usage().unwrap().borrowed > 0, "a dry run changes nothing");
    case.store.collector().gc(&[].into(), NOW, false).unwrap();

    assert_eq!(case.store.inspection().usage().unwrap().borrowed, 0);
    case.git(&["fsck", "--full", "--strict"]);
    for capture in [first, last] {
        let image = case.store.captures().path_image(&capture, &path("sub/c.txt")).unwrap();
        assert!(matches!(image, PathImage::Present { .. }));
    }
}

#[test]
fn capture_during_pack_release_keeps_its_objects() {
    let case = checkout_of(default_settings());
    case.write("b.txt", "an older text that the pack still holds\n");
    commit_and_repack(&case, &[]);
    case.write("b.txt", "a newer text\n");
    commit_and_repack(&case, &[]);
    assert_reused(&case, FILE_COUNT);
    // In a borrowed pack, but in no capture before.
    case.write("b.txt", "an older text that the pack still holds\n");
    let older = case.capture();
    case.store.packs().release_borrowed_packs().unwrap();
    fs_err::remove_dir_all(case.at(".git")).unwrap();

    assert_raw_bytes(&case, &older);
    case.git(&["fsck", "--full"]);
}

/// Proves R10.
#[test]
fn damaged_borrowed_object_is_rebuilt_from_the_file() {
    let case = committed_checkout();
    corrupt_packed_object(&case, "sub/c.txt");
    let captured = case.capture();
    assert_eq!(captured.reused, FILE_COUNT, "headers do not tell");
    let file = case.at("sub/c.txt");
    fs_err::rename(&file, case.at("moved")).unwrap();
    let now = case.capture().capture;
    let then = &captured.capture;
    let restored = case
        .store
        .planner()
        .plan_restore(then, &now, None, false)
        .and_then(|plan| case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW));
    assert!(restored.is_err() || !file.exists(), "wrong bytes were written");
    fs_err::rename(case.at("moved"), &file).unwrap();
    case.capture();

    let settled = case.store.packs().release_borrowed_packs().unwrap();

    assert_eq!((settled.repaired, settled.lost.len()), (1, 0));
    assert_raw_bytes(&case, &captured);
    case.git(&["fsck", "--full"]);
}

/// Proves R10.
#[test]
fn borrowed_object_with_wrong_hash_is_never_served() {
    let case = checkout_of(default_settings());
    let (one, other) = ("0123456789\n".repeat(REPEATS), "abcdefghij\n".repeat(REPEATS));
    case.write("one", &one);
    case.write("other", &other);
    commit_and_repack(&case, &[]);
    swap_packed_objects(&case, "one", "other");
    let captured = case.capture();
    assert_eq!(captured.reused, FILE_COUNT + 2, "kind and size do not tell");
    case.remove("one");
    let now = case.capture().capture;
    let then = &captured.capture;
    let options = turnstone_snapshot::DiffOptions::default();
    assert!(case.store.diffs().between(then, &now, &options).is_err(), "wrong bytes were shown");
    let plan = case.store.planner().plan_restore(then, &now, None, false);
    let restored =
        plan.and_then(|plan| case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW));
    assert!(restored.is_err() || !case.at("one").exists(), "wrong bytes were written");
    case.write("one", &one);
    case.capture();

    let settled = case.store.packs().release_borrowed_packs().unwrap();

    assert_eq!((settled.repaired, settled.lost.len()), (2, 0));
    assert_raw_bytes(&case, &captured);
}

/// Proves R10.
#[test]
fn damaged_borrowed_object_without_file_is_reported_lost() {
    let case = committed_checkout();
    corrupt_packed_object(&case, "sub/c.txt");
    let captured = case.capture();
    case.write("sub/c.txt", "other bytes\n");
    let later = case.capture();

    let settled = case.store.packs().release_borrowed_packs().unwrap();

    assert_eq!(settled.lost.len(), 1);
    assert_eq!(settled.returned, 1);
    let options = turnstone_snapshot::DiffOptions::default();
    assert!(case.store.diffs().between(&captured.capture, &later.capture, &options).is_err());
    assert_raw_bytes(&case, &later);
    // What is left of the store works on: captures, collections.
    case.write("more", "more\n");
    case.store.capture(&PinGroup::new("other"), NOW).unwrap();
    let live = [PinGroup::new("test")].into();
    let report = case.store.collector().gc(&live, NOW.plus(7_200_000), false).unwrap();
    assert_eq!(report.dropped_groups, ["other"]);
    assert_raw_bytes(&case, &later);
}

/// Proves R10.
#[test]
fn loose_objects_are_not_borrowed_and_files_are_read() {
    let case = checkout_of(default_settings());
    commit_and_repack(&case, &[]);
    wait_past_clock_granularity();
    case.write("later", "not packed\n");
    wait_past_clock_granularity();
    case.git_in(&case.root(), &["add", "later"]);

    assert_reused(&case, FILE_COUNT);
}

/// Proves R10.
#[test]
fn oversized_pack_is_not_borrowed() {
    let case = checkout_of(default_settings());
    let noise: Vec<u8> =
        (0_u32..40_000).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    case.write("large", noise);
    commit_and_repack(&case, &[]);
    case.remove("large");
    commit_and_repack(&case, &[]);

    assert_reused(&case, 0);
    assert_eq!(case.store.inspection().usage().unwrap().borrowed, 0);
}

/// Proves R10.
#[test]
fn nested_repository_packs_are_reused_for_its_own_files() {
    let case = checkout_of(default_settings());
    case.write("inner/x.txt", "inside\n".repeat(400));
    let inner = case.at("inner");
    wait_past_clock_granularity();
    case.git_in(&inner, &["init", "-q"]);
    case.git_in(&inner, &["add", "."]);
    case.git_in(&inner, &["commit", "-q", "-m", "x"]);
    case.git_in(&inner, &["repack", "-a", "-d", "-q"]);
    commit_and_repack(&case, &["-c", "advice.addEmbeddedRepo=false"]);

    let captured = assert_reused(&case, FILE_COUNT + 1);
    assert!(case.tree_paths(&captured).contains(&"inner/x.txt".to_owned()));
    case.store.packs().release_borrowed_packs().unwrap();
    assert_raw_bytes(&case, &captured);
}

#[test]
fn file_mode_comes_from_disk_not_from_the_index() {
    let case = checkout_of(default_settings());
    case.git_in(&case.root(), &["config", "core.fileMode", "false"]);
    case.chmod("a.txt", 0o755);
    case.link("link", "a.txt");
    commit_and_repack(&case, &[]);

    let captured = assert_reused_links(&case);
    let text = case.git(&["ls-tree", &captured.capture.tree.to_string(), "a.txt"]);
    assert!(text.starts_with("100755"), "{text}");
}

fn assert_reused_links(case: &StoreFixture) -> CaptureOutcome {
    let captured = case.capture();
    assert_eq!(captured.reused, FILE_COUNT + 1);
    assert_eq!(captured.capture.tree.to_string(), case.git_write_tree());
    captured
}
