//! Repacking: versions become changes of each other, and every one of them stays what it was (R13).

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use edits::{EFFORT, blob, depths, edit, repack, text};
use support::{Case, NOW};
use turnstone_snapshot::{Collection, Group, Oid};
use turnstone_testkit::fixture::Rng;

const HOUR: i64 = 3_600_000;

#[cfg(test)]
mod edits {
    //! A large text that is edited again and again.

    use turnstone_snapshot::{Captured, Oid, Shadow};
    use turnstone_testkit::fixture::Rng;

    use crate::support::{Case, path};

    /// More than any store here has.
    pub(crate) const EFFORT: u64 = 256 << 20;

    /// A text of about `size` bytes that does not compress to nothing.
    pub(crate) fn text(rng: &mut Rng, size: usize) -> Vec<String> {
        let line =
            |rng: &mut Rng| format!("{:016x} {:016x}\n", rng.below(u64::MAX), rng.below(u64::MAX));
        (0..size / 34).map(|_| line(rng)).collect()
    }

    pub(crate) fn blob(shadow: &Shadow, captured: &Captured, at: &str) -> Oid {
        shadow.image(&captured.capture, &path(at)).unwrap().leaf().unwrap().blob
    }

    pub(crate) fn repack(case: &Case) {
        for round in 0.. {
            assert!(round < 50, "it never ends");
            if case.shadow.repack(EFFORT).unwrap().is_done {
                break;
            }
        }
    }

    /// Captures a file again and again, each time with one line changed.
    pub(crate) fn edit(
        case: &Case,
        rng: &mut Rng,
        lines: &mut [String],
        count: usize,
    ) -> Vec<Captured> {
        let capture = |_| {
            let at = rng.below(lines.len() as u64) as usize;
            lines[at] = format!("edit {:016x}\n", rng.below(u64::MAX));
            case.write("big.txt", lines.concat());
            case.capture()
        };
        (0..count).map(capture).collect()
    }

    pub(crate) fn depths(case: &Case) -> usize {
        let folder = case.shadow.git_dir().join("objects/pack");
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

/// The rule's figure on a small scale; the example `vault` measures it in full.
#[test]
fn many_edits_of_one_large_text_take_little_after_maintenance_r13() {
    let mut case = Case::new();
    let mut rng = Rng::new(1);
    let mut lines = text(&mut rng, 128 << 10);
    let made = edit(&case, &mut rng, &mut lines, 200);
    let blobs: Vec<Oid> = made.iter().map(|it| blob(&case.shadow, it, "big.txt")).collect();
    let before = case.shadow.usage().unwrap().bytes;

    repack(&case);

    let after = case.shadow.usage().unwrap().bytes;
    assert!(before > 12 << 20, "{before}");
    assert!(after < 700 << 10, "{before} became {after}");
    assert!((2..=50).contains(&depths(&case)));
    case.git(&["fsck", "--full", "--strict"]);
    for reopened in [false, true] {
        if reopened {
            case.reopen();
        }
        for (captured, expected) in made.iter().zip(&blobs).step_by(23) {
            let capture = case.shadow.get_capture(&captured.capture.id).unwrap();
            assert_eq!(capture.tree, captured.capture.tree);
            assert_eq!(blob(&case.shadow, captured, "big.txt"), *expected);
            let bytes = case.git(&["cat-file", "blob", &expected.to_string()]);
            assert!(bytes.starts_with(lines[0].trim_end()) || bytes.len() > 100_000);
        }
    }
    assert!(case.shadow.repack(EFFORT).unwrap().is_done);
}

#[test]
fn captures_after_a_repack_are_told_as_changes_of_those_before_r13() {
    let case = Case::new();
    let mut rng = Rng::new(2);
    let mut lines = text(&mut rng, 128 << 10);
    let mut made = Vec::new();
    for _ in 0..8 {
        made.extend(edit(&case, &mut rng, &mut lines, 15));
        repack(&case);
    }

    let usage = case.shadow.usage().unwrap();
    assert!(usage.bytes < 600 << 10, "{usage:?}");
    assert!(usage.packs <= 3, "{usage:?}");
    assert!(depths(&case) <= 50);
    case.git(&["fsck", "--full"]);
    for captured in &made {
        let blob = blob(&case.shadow, captured, "big.txt");
        assert!(!case.git(&["cat-file", "-s", &blob.to_string()]).is_empty());
    }
}

#[test]
fn what_lost_its_base_to_a_collection_is_told_anew_r13() {
    let case = Case::new();
    let mut rng = Rng::new(3);
    let mut lines = text(&mut rng, 128 << 10);
    let goes = Group::new("goes");
    case.write("big.txt", lines.concat());
    case.shadow.capture(&goes, NOW).unwrap();
    let made = edit(&case, &mut rng, &mut lines, 60);
    repack(&case);
    let before = case.shadow.usage().unwrap().bytes;
    let live = [Group::new("test")].into();

    let report = case.shadow.gc(&live, NOW.plus(2 * HOUR), false).unwrap();

    assert_eq!(report.dropped_groups, ["goes"]);
    assert!(report.dropped_bytes > 32 << 10, "the first version was the base: {report:?}");
    assert!(report.bytes_after < before * 5 / 4, "{report:?}");
    case.git(&["fsck", "--full"]);
    let last = blob(&case.shadow, made.last().unwrap(), "big.txt");
    assert_eq!(case.git(&["cat-file", "blob", &last.to_string()]), lines.concat().trim_end());
}

#[test]
fn packs_that_somebody_keeps_are_never_touched() {
    let case = Case::new();
    let folder = case.shadow.git_dir().join("objects/pack");
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
        case.shadow.capture(&Group::new("goes"), NOW).unwrap();
        let stem = stems().difference(&before).next().unwrap().clone();
        fs_err::write(folder.join(format!("{stem}.{ending}")), "").unwrap();
        marked.push(stem);
    }
    for round in 0..4 {
        case.write("a", format!("{round}"));
        case.capture();
    }

    repack(&case);
    case.shadow.merge_packs().unwrap();
    case.shadow.gc(&[Group::new("test")].into(), NOW.plus(2 * HOUR), false).unwrap();

    let after = stems();
    assert!(marked.iter().all(|stem| after.contains(stem)));
    assert_eq!(after.len(), 3);
    case.git(&["fsck", "--full"]);
}

#[test]
fn a_bounded_collection_leaves_a_sound_store_and_is_finished_later_r41() {
    let case = Case::new();
    let mut rng = Rng::new(5);
    for round in 0..12 {
        case.write("mine", text(&mut rng, 20 << 10).concat());
        case.write(&format!("d/{round}"), format!("{round}"));
        let group = if round % 2 == 0 { "goes" } else { "test" };
        case.shadow.capture(&Group::new(group), NOW).unwrap();
    }
    case.shadow.merge_packs().unwrap();
    for round in 0..6 {
        case.write("mine", text(&mut rng, 20 << 10).concat());
        let group = if round % 2 == 0 { "goes" } else { "test" };
        case.shadow.capture(&Group::new(group), NOW).unwrap();
    }
    let live = [Group::new("test")].into();
    let now = NOW.plus(2 * HOUR);
    let mut bounded =
        Collection { live: &live, now, keep: 7 * 24 * HOUR, effort: 30 << 10, dry_run: false };

    let recent = case.shadow.collect(&bounded).unwrap();
    assert!(recent.dropped_groups.is_empty(), "unpinned captures are kept for seven days");
    bounded.keep = HOUR;
    let first = case.shadow.collect(&bounded).unwrap();
    assert!(!first.is_done && first.bytes_after < first.bytes_before, "{first:?}");
    case.git(&["fsck", "--full"]);
    let second = case.shadow.gc(&live, now, false).unwrap();
    assert!(second.is_done && second.dropped_objects > 0);
    case.git(&["fsck", "--full"]);
    assert_eq!(case.shadow.gc(&live, now, true).unwrap().dropped_objects, 0);
    assert_eq!(case.shadow.usage().unwrap().last_gc, Some(now));
}
