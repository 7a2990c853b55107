//! Repacking: versions become changes of each other, and every one of them stays what it was (R13).

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use edits::{EFFORT, blob, edit, max_delta_depth, repack, text};
use support::{NOW, StoreFixture};
use turnstone_snapshot::{GcOptions, Oid, PinGroup};
use turnstone_testkit::fixture::SeededRng;

const HOUR: i64 = 3_600_000;

#[cfg(test)]
mod edits {
    //! A large text that is edited again and again.

    use turnstone_snapshot::{CaptureOutcome, Oid, SnapshotStore};
    use turnstone_testkit::fixture::SeededRng;

    use crate::support::{StoreFixture, path};

    /// More than any store here has.
    pub(crate) const EFFORT: u64 = 256 << 20;

    /// A text of about `size` bytes that does not compress to nothing.
    pub(crate) fn text(rng: &mut SeededRng, size: usize) -> Vec<String> {
        let line = |rng: &mut SeededRng| {
            format!("{:016x} {:016x}\n", rng.below(u64::MAX), rng.below(u64::MAX))
        };
        (0..size / 34).map(|_| line(rng)).collect()
    }

    pub(crate) fn blob(store: &SnapshotStore, captured: &CaptureOutcome, at: &str) -> Oid {
        store.captures().path_image(&captured.capture, &path(at)).unwrap().leaf().unwrap().blob
    }

    pub(crate) fn repack(case: &StoreFixture) {
        for round in 0.. {
            assert!(round < 50, "it never ends");
            if case.store.packs().repack(EFFORT).unwrap().is_done {
                break;
            }
        }
    }

    /// Captures a file again and again, each time with one line changed.
    pub(crate) fn edit(
        case: &StoreFixture,
        rng: &mut SeededRng,
        lines: &mut [String],
        count: usize,
    ) -> Vec<CaptureOutcome> {
        let capture = |_| {
            let at = rng.below(lines.len() as u64) as usize;
            lines[at] = format!("edit {:016x}\n", rng.below(u64::MAX));
            case.write("big.txt", lines.concat());
            case.capture()
        };
        (0..count).map(capture).collect()
    }

    pub(crate) fn max_delta_depth(case: &StoreFixture) -> usize {
        let folder = case.store.git_dir().join("objects/pack");
        let packs = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut deepest = 0;
        for pack in packs.filter(|path| path.extension().is_some_and(|it| it == "idx")) {
            let said = case.git(&["verify-pack", "-v", pack.to_str().unwrap()]);
            let length = |line: &str| {
                line.strip_prefix("chain length = ")?.split(':').next()?.parse::<usize>().ok()
            };
            deepest = said.lines().filter_map(length).max().unwrap_or_default().max(deepest);
        }
        deepest
    }
}

/// The rule's figure on a small scale; the example `snapshot_store` measures it in full.
/// Proves R13.
#[test]
fn repack_compresses_many_edits_of_a_large_text() {
    let mut case = StoreFixture::new();
    let mut rng = SeededRng::new(1);
    let mut lines = text(&mut rng, 128 << 10);
    let made = edit(&case, &mut rng, &mut lines, 200);
    let blobs: Vec<Oid> = made.iter().map(|it| blob(&case.store, it, "big.txt")).collect();
    let before = case.store.inspection().usage().unwrap().bytes;

    repack(&case);

    let after = case.store.inspection().usage().unwrap().bytes;
    assert!(before > 12 << 20, "{before}");
    assert!(after < 700 << 10, "{before} became {after}");
    assert!((2..=50).contains(&max_delta_depth(&case)));
    case.git(&["fsck", "--full", "--strict"]);
    for reopened in [false, true] {
        if reopened {
            case.reopen();
        }
        for (captured, expected) in made.iter().zip(&blobs).step_by(23) {
            let capture = case.store.captures().get(&captured.capture.id).unwrap();
            assert_eq!(capture.tree, captured.capture.tree);
            assert_eq!(blob(&case.store, captured, "big.txt"), *expected);
            let bytes = case.git(&["cat-file", "blob", &expected.to_string()]);
            assert!(bytes.starts_with(lines[0].trim_end()) || bytes.len() > 100_000);
        }
    }
    assert!(case.store.packs().repack(EFFORT).unwrap().is_done);
}

/// Proves R13.
#[test]
fn repack_deltas_new_captures_against_older_ones() {
    let case = StoreFixture::new();
    let mut rng = SeededRng::new(2);
    let mut lines = text(&mut rng, 128 << 10);
    let mut made = Vec::new();
    for _ in 0..8 {
        made.extend(edit(&case, &mut rng, &mut lines, 15));
        repack(&case);
    }

    let usage = case.store.inspection().usage().unwrap();
    assert!(usage.bytes < 600 << 10, "{usage:?}");
    assert!(usage.packs <= 3, "{usage:?}");
    assert!(max_delta_depth(&case) <= 50);
    case.git(&["fsck", "--full"]);
    for captured in &made {
        let blob = blob(&case.store, captured, "big.txt");
        assert!(!case.git(&["cat-file", "-s", &blob.to_string()]).is_empty());
    }
}

/// Proves R13.
#[test]
fn object_whose_delta_base_was_collected_is_rewritten() {
    let case = StoreFixture::new();
    let mut rng = SeededRng::new(3);
    let mut lines = text(&mut rng, 128 << 10);
    let goes = PinGroup::new("goes");
    case.write("big.txt", lines.concat());
    case.store.capture(&goes, NOW).unwrap();
    let made = edit(&case, &mut rng, &mut lines, 60);
    repack(&case);
    let before = case.store.inspection().usage().unwrap().bytes;
    let live = [PinGroup::new("test")].into();

    let report = case.store.collector().gc(&live, NOW.plus(2 * HOUR), false).unwrap();

    assert_eq!(report.dropped_groups, ["goes"]);
    assert!(report.dropped_bytes > 32 << 10, "the first version was the base: {report:?}");
    assert!(report.bytes_after < before * 5 / 4, "{report:?}");
    case.git(&["fsck", "--full"]);
    let last = blob(&case.store, made.last().unwrap(), "big.txt");
    assert_eq!(case.git(&["cat-file", "blob", &last.to_string()]), lines.concat().trim_end());
}

#[test]
fn packs_with_keep_files_are_never_touched() {
    let case = StoreFixture::new();
    let folder = case.store.git_dir().join("objects/pack");
    let stems = || {
        let names = fs_err::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let stems = names.filter_map(|name| name.strip_suffix(".idx").map(str::to_owned));
        stems.collect::<std::collections::BTreeSet<String>>()
    };
    let mut marked = Vec::new();
    for (number, ending) in ["keep", "promisor"].into_iter().enumerate() {
        let before = stems();
        case.write("a", format!("{number} to be left alone"));
        case.store.capture(&PinGroup::new("goes"), NOW).unwrap();
        let stem = stems().difference(&before).next().unwrap().clone();
        fs_err::write(folder.join(format!("{stem}.{ending}")), "").unwrap();
        marked.push(stem);
    }
    for round in 0..4 {
        case.write("a", format!("{round}"));
        case.capture();
    }

    repack(&case);
    case.store.collector().gc(&[PinGroup::new("test")].into(), NOW.plus(2 * HOUR), false).unwrap();

    let after = stems();
    assert!(marked.iter().all(|stem| after.contains(stem)));
    assert_eq!(after.len(), 3);
    case.git(&["fsck", "--full"]);
}

/// Proves R41.
#[test]
fn bounded_gc_leaves_a_consistent_store_and_finishes_later() {
    let case = StoreFixture::new();
    let mut rng = SeededRng::new(5);
    for round in 0..12 {
        case.write("mine", text(&mut rng, 20 << 10).concat());
        case.write(&format!("d/{round}"), format!("{round}"));
        let group = if round % 2 == 0 { "goes" } else { "test" };
        case.store.capture(&PinGroup::new(group), NOW).unwrap();
    }
    repack(&case);
    for round in 0..6 {
        case.write("mine", text(&mut rng, 20 << 10).concat());
        let group = if round % 2 == 0 { "goes" } else { "test" };
        case.store.capture(&PinGroup::new(group), NOW).unwrap();
    }
    let live = [PinGroup::new("test")].into();
    let now = NOW.plus(2 * HOUR);
    let mut bounded =
        GcOptions { live: &live, now, keep: 7 * 24 * HOUR, effort: 30 << 10, dry_run: false };

    let recent = case.store.collector().collect(&bounded).unwrap();
    assert!(recent.dropped_groups.is_empty(), "unpinned captures are kept for seven days");
    bounded.keep = HOUR;
    let first = case.store.collector().collect(&bounded).unwrap();
    assert!(!first.is_done && first.bytes_after < first.bytes_before, "{first:?}");
    case.git(&["fsck", "--full"]);
    let second = case.store.collector().gc(&live, now, false).unwrap();
    assert!(second.is_done && second.dropped_objects > 0);
    case.git(&["fsck", "--full"]);
    assert_eq!(case.store.collector().gc(&live, now, true).unwrap().dropped_objects, 0);
    assert_eq!(case.store.inspection().usage().unwrap().last_gc, Some(now));
}
