//! Maintenance: what is pinned stays, what is not goes, and small packs become one.

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use support::{NOW, StoreFixture, path};
use turnstone_snapshot::{PathImage, PinGroup};

const HOUR: i64 = 3_600_000;

/// Proves R9.
#[test]
fn gc_drops_dead_groups_and_keeps_live_ones() {
    let mut case = StoreFixture::new();
    let (stays, goes) = (PinGroup::new("stays"), PinGroup::new("goes"));
    case.write("shared", "in both");
    case.write("a", "only in the one that goes");
    let gone = case.store.capture(&goes, NOW).unwrap().capture;
    case.write("a", "kept");
    let kept = case.store.capture(&stays, NOW).unwrap().capture;
    let live = [stays.clone()].into();
    let later = NOW.plus(HOUR + 1);

    let plan = case.store.collector().gc(&live, later, true).unwrap();
    assert_eq!(plan.dropped_groups, ["goes"]);
    assert!(case.store.captures().get(&gone.id).is_ok(), "a dry run changes nothing");
    let report = case.store.collector().gc(&live, later, false).unwrap();

    assert_eq!(report.dropped_objects, plan.dropped_objects);
    assert!(report.bytes_after < report.bytes_before);
    assert!(case.store.captures().get(&gone.id).is_err());
    assert_eq!(case.store.inspection().usage().unwrap().groups, 1);
    for reopened in [false, true] {
        if reopened {
            case.reopen();
        }
        let capture = case.store.captures().get(&kept.id).unwrap();
        assert!(matches!(
            case.store.captures().path_image(&capture, &path("a")),
            Ok(PathImage::Present { .. })
        ));
        case.git(&["fsck", "--full"]);
    }
}

/// Proves R9.
#[test]
fn gc_never_drops_a_young_group() {
    let case = StoreFixture::new();
    case.write("a", "1");
    let capture = case.capture().capture;

    let report = case.store.collector().gc(&[].into(), NOW.plus(HOUR - 1), false).unwrap();

    assert!(report.dropped_groups.is_empty());
    assert!(case.store.captures().get(&capture.id).is_ok());
}

#[test]
fn file_whose_blob_was_collected_is_read_again() {
    let mut case = StoreFixture::new();
    case.write("a", "1");
    std::thread::sleep(std::time::Duration::from_millis(150));
    let before = case.store.capture(&PinGroup::new("goes"), NOW).unwrap().capture;
    case.store.collector().gc(&[].into(), NOW.plus(2 * HOUR), false).unwrap();
    assert!(case.store.captures().get(&before.id).is_err());

    for _ in 0..2 {
        let after = case.capture().capture;
        assert_eq!(after.tree, before.tree);
        assert!(matches!(
            case.store.captures().path_image(&after, &path("a")),
            Ok(PathImage::Present { .. })
        ));
        case.git(&["fsck", "--full"]);
        case.reopen();
    }
}

#[test]
fn merging_packs_keeps_every_capture_readable() {
    let case = StoreFixture::new();
    let made: Vec<_> = (0..300)
        .map(|round| {
            case.write("a", format!("{round}"));
            case.capture().capture
        })
        .collect();

    assert!(case.store.inspection().usage().unwrap().packs <= 130);
    case.store.packs().repack(1 << 30).unwrap();
    assert_eq!(case.store.inspection().usage().unwrap().packs, 1);
    for (round, capture) in made.iter().enumerate() {
        let capture = case.store.captures().get(&capture.id).unwrap();
        let text =
            case.store.captures().path_image(&capture, &path("a")).unwrap().leaf().unwrap().blob;
        if round % 100 == 0 {
            assert_eq!(case.git(&["show", &text.to_string()]), format!("{round}"));
        }
    }
    case.git(&["fsck", "--full"]);
}

#[test]
fn gc_after_git_gc_keeps_the_store_consistent() {
    let case = StoreFixture::new();
    for round in 0..4 {
        case.write("a", format!("{round}"));
        case.store.capture(&PinGroup::new(&format!("g{}", round % 2)), NOW).unwrap();
    }
    case.git(&["-c", "gc.writeCommitGraph=true", "gc", "-q"]);
    let live = [PinGroup::new("g1")].into();

    let report = case.store.collector().gc(&live, NOW.plus(2 * HOUR), false).unwrap();

    assert_eq!(report.dropped_groups, ["g0"]);
    assert_eq!(case.store.captures().list(&PinGroup::new("g1")).unwrap().len(), 2);
    assert!(case.store.captures().list(&PinGroup::new("g0")).unwrap().is_empty());
    case.git(&["fsck", "--full"]);
}

#[test]
fn interrupted_gc_leaves_no_stale_stat_cache_entries() {
    let mut case = StoreFixture::new();
    case.write("a", "1");
    std::thread::sleep(std::time::Duration::from_millis(150));
    case.store.capture(&PinGroup::new("goes"), NOW).unwrap();
    let scenario = fail::FailScenario::setup();
    fail::cfg("snapshot::pack_hidden", "return").unwrap();
    case.store.collector().gc(&[].into(), NOW.plus(2 * HOUR), false).unwrap_err();
    scenario.teardown();

    case.reopen();
    let after = case.capture();

    assert!(matches!(
        case.store.captures().path_image(&after.capture, &path("a")),
        Ok(PathImage::Present { .. })
    ));
    case.git(&["fsck", "--full"]);
}

/// Captures, collections, repacks and git's own gc, all at once.
/// Proves R9.
#[test]
fn concurrent_gc_repack_and_captures_lose_nothing_pinned() {
    let case = StoreFixture::new();
    let (live, goes) = (PinGroup::new("live"), PinGroup::new("goes"));
    let pinned = [live.clone()].into();
    let later = NOW.plus(2 * HOUR);
    let rounds = std::sync::atomic::AtomicUsize::new(0);
    let is_over = || rounds.load(std::sync::atomic::Ordering::SeqCst) >= 40;

    let made = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut made = Vec::new();
            for round in 0..40 {
                case.write(&format!("d{}/f", round % 5), format!("{}\n", round / 2).repeat(300));
                made.push(case.store.capture(&live, NOW).unwrap().capture);
                rounds.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
            made
        });
        let named = scope.spawn(|| {
            let mut made = Vec::new();
            while !is_over() {
                case.write("named", format!("{}", made.len() % 7));
                let paths = [path("named")].into();
                case.store.capture_named(&goes, &paths, false, NOW).unwrap();
                made.push(case.store.capture_named(&live, &paths, false, NOW).unwrap().capture);
            }
            made
        });
        scope.spawn(|| {
            while !is_over() {
                case.store.collector().gc(&pinned, later, false).unwrap();
                case.store.packs().repack(64 << 20).unwrap();
            }
        });
        let mut made = writer.join().unwrap();
        made.extend(named.join().unwrap());
        made
    });

    case.git(&["gc", "-q", "--prune=now"]);
    for capture in &made {
        let found = case.store.captures().get(&capture.id).unwrap();
        assert_eq!(found.tree, capture.tree);
        case.store.captures().path_image(&found, &path("d0/f")).unwrap();
    }
    case.git(&["fsck", "--full"]);
}

/// Proves R11.
#[test]
fn captures_during_git_gc_lose_nothing() {
    let case = StoreFixture::new();
    let group = PinGroup::new("live");
    let made = std::thread::scope(|scope| {
        let git = scope.spawn(|| (0..4).for_each(|_| drop(case.git(&["gc", "-q", "--prune=now"]))));
        let mut made = Vec::new();
        while !git.is_finished() {
            case.write("a", format!("{}", made.len()).repeat(100));
            let paths = [path("a")].into();
            made.push(case.store.capture_named(&group, &paths, false, NOW));
        }
        git.join().unwrap();
        made
    });

    let made: Vec<_> = made.into_iter().map(|it| it.unwrap().capture).collect();
    for capture in &made {
        let found = case.store.captures().get(&capture.id).unwrap();
        assert!(matches!(
            case.store.captures().path_image(&found, &path("a")),
            Ok(PathImage::Present { .. })
        ));
    }
    case.store.packs().repack(64 << 20).unwrap();
    case.git(&["fsck", "--full"]);
}

/// Proves R6.
#[test]
fn captures_during_gc_keep_their_objects() {
    let case = StoreFixture::new();
    let (stays, goes) = (PinGroup::new("stays"), PinGroup::new("goes"));
    case.write("a", "only the group that goes needs it, so far");
    case.store.capture(&goes, NOW).unwrap();
    case.write("b", "of a group that stays");
    case.remove("a");
    case.store.capture(&stays, NOW).unwrap();
    case.store.packs().repack(1 << 30).unwrap();
    let live = [stays.clone()].into();
    let scenario = fail::FailScenario::setup();
    fail::cfg("snapshot::repacked", "pause").unwrap();

    let made = std::thread::scope(|scope| {
        let gc =
            scope.spawn(|| case.store.collector().gc(&live, NOW.plus(2 * HOUR), false).unwrap());
        while case.store.inspection().usage().unwrap().packs < 2 {
            std::thread::yield_now();
        }
        // The new pack is there, without these bytes; the old one still has them.
        case.write("a", "only the group that goes needs it, so far");
        let whole = case.store.capture(&stays, NOW).unwrap().capture;
        let paths = [path("a")].into();
        let named = case.store.capture_named(&stays, &paths, false, NOW).unwrap().capture;
        assert!(!gc.is_finished());
        fail::remove("snapshot::repacked");
        assert_eq!(gc.join().unwrap().dropped_groups, ["goes"]);
        [whole, named]
    });

    scenario.teardown();
    for capture in made {
        let blob =
            case.store.captures().path_image(&capture, &path("a")).unwrap().leaf().unwrap().blob;
        let text = case.git(&["cat-file", "blob", &blob.to_string()]);
        assert_eq!(text, "only the group that goes needs it, so far");
    }
    case.git(&["fsck", "--full"]);
}
