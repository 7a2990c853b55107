//! The budget: what does not fit is refused whole, and room is made in the order of R13.

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use std::collections::BTreeSet;

use random_data::{fixture_with_budget, pack_file_names, random_bytes};
use support::{NOW, StoreFixture, path, paths_of};
use turnstone_snapshot::{
    BudgetLimit, CaptureError, EvictionRequest, ExpireError, ExpiryStep, FreeSpaceFloor,
    OverBudget, PathImage, PinGroup, StorageBudget,
};
use turnstone_testkit::fixture::SeededRng;

const HOUR: i64 = 3_600_000;

#[cfg(test)]
mod random_data {
    //! Stores with a budget, and bytes that do not compress.

    use turnstone_snapshot::{FreeSpaceFloor, StorageBudget};
    use turnstone_testkit::fixture::SeededRng;

    use crate::support::StoreFixture;

    pub(crate) fn random_bytes(rng: &mut SeededRng, size: usize) -> Vec<u8> {
        (0..size).map(|_| rng.below(256) as u8).collect()
    }

    pub(crate) fn fixture_with_budget(store: u64) -> StoreFixture {
        StoreFixture::new().with_budget(StorageBudget {
            store,
            floor: FreeSpaceFloor::Bytes(0),
            ..StorageBudget::default()
        })
    }

    pub(crate) fn pack_file_names(case: &StoreFixture) -> Vec<String> {
        let folder = case.store.git_dir().join("objects/pack");
        let names = fs_err::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Proves R13.
#[test]
fn capture_over_budget_fails_and_leaves_nothing() {
    let case = fixture_with_budget(64 << 10);
    let mut rng = SeededRng::new(1);
    case.write("a", random_bytes(&mut rng, 20 << 10));
    let kept = case.capture();
    let before = pack_file_names(&case);
    case.write("b", random_bytes(&mut rng, 50 << 10));

    let refused = case.store.capture(&PinGroup::new("test"), NOW).unwrap_err();

    let CaptureError::OverBudget(OverBudget { which, used, limit, needed, borrowed }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!((which, limit, borrowed), (BudgetLimit::Store, 64 << 10, 0));
    assert_eq!(used, case.store.inspection().usage().unwrap().bytes);
    assert!(needed > 50 << 10 && needed < 60 << 10, "{needed}");
    assert_eq!(pack_file_names(&case), before);
    assert_eq!(case.store.captures().list(&PinGroup::new("test")).unwrap(), [kept.capture.id]);
    case.remove("b");
    case.write("c", "small");
    assert!(case.capture().is_new, "what fits is captured");
    case.git(&["fsck", "--full"]);
}

/// Proves R13.
#[test]
fn total_budget_counts_other_stores() {
    let other = StoreFixture::new();
    let mut rng = SeededRng::new(2);
    other.write("a", random_bytes(&mut rng, 50 << 10));
    other.capture();
    let taken = other.store.inspection().usage().unwrap().bytes;
    let case = StoreFixture::new();
    fs_err::create_dir(case.dir.path().join("stores")).unwrap();
    let linked = case.dir.path().join("stores/other");
    std::os::unix::fs::symlink(other.dir.path().join("store"), linked).unwrap();
    let stores = Some(case.dir.path().join("stores"));
    let total = 80 << 10;
    let floor = FreeSpaceFloor::Bytes(0);
    let case = case.with_budget(StorageBudget { total, stores, floor, ..StorageBudget::default() });
    case.write("a", random_bytes(&mut rng, 40 << 10));

    let refused = case.store.capture(&PinGroup::new("test"), NOW).unwrap_err();

    let CaptureError::OverBudget(over) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((over.which, over.limit, over.used), (BudgetLimit::Total, total, taken));
}

/// Proves R14.
#[test]
fn no_capture_or_guard_below_the_free_space_floor() {
    let case = StoreFixture::new();
    case.write("a", "old");
    let old = case.capture().capture;
    case.write("a", "new");
    let new = case.capture().capture;
    let plan = case.store.planner().plan_restore(&old, &new, None, false).unwrap();
    let floor = FreeSpaceFloor::Bytes(u64::MAX);
    let case = case.with_budget(StorageBudget { floor, ..StorageBudget::default() });
    case.write("b", "b");

    let refused = case.store.capture(&PinGroup::new("test"), NOW).unwrap_err();
    assert!(matches!(refused, CaptureError::BelowFloor { .. }), "{refused:?}");
    assert!(case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).is_err());
    assert_eq!(case.read("a"), "new", "without a guard nothing is overwritten");
    assert!(!pack_file_names(&case).iter().any(|name| name.contains("tmp_")));
}

/// Proves R14.
#[test]
fn guard_may_exceed_the_budget() {
    let case = StoreFixture::new();
    let mut rng = SeededRng::new(3);
    case.write("a", "old");
    let old = case.capture().capture;
    case.write("a", random_bytes(&mut rng, 30 << 10));
    let new = case.capture().capture;
    let plan = case.store.planner().plan_restore(&old, &new, None, false).unwrap();
    let case = case.with_budget(StorageBudget {
        store: 1,
        floor: FreeSpaceFloor::Bytes(0),
        ..StorageBudget::default()
    });

    let report = case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).unwrap();

    assert_eq!(report.restored, [path("a")]);
    assert_eq!(case.read("a"), "old");
    let guard = case.store.captures().get(&report.guard.unwrap()).unwrap();
    let kept = case.store.captures().path_image(&guard, &path("a")).unwrap();
    assert_eq!(kept, case.store.captures().path_image(&new, &path("a")).unwrap());
}

/// Proves R9.
#[test]
fn expiry_removes_old_captures_and_keeps_other_ids() {
    let mut case = StoreFixture::new();
    let group = PinGroup::new("test");
    let made: Vec<_> = (0..6)
        .map(|round| {
            case.write("a", format!("{round}"));
            case.store.capture(&group, NOW.plus(round)).unwrap().capture
        })
        .collect();
    let ids = |range: std::ops::Range<usize>| -> Vec<_> {
        made[range].iter().rev().map(|it| it.id).collect()
    };

    assert_eq!(case.store.expiry().expire_before(&group, &made[2].id).unwrap(), ids(0..2));
    assert_eq!(
        case.store.expiry().expire_before(&group, &made[3].id).unwrap(),
        ids(2..3),
        "twice over"
    );
    assert!(case.store.expiry().expire_before(&group, &made[3].id).unwrap().is_empty());
    let unknown = case.store.expiry().expire_before(&group, &made[0].id).unwrap_err();
    assert!(matches!(unknown, ExpireError::NotInGroup { .. }));
    case.store.collector().gc(&[group.clone()].into(), NOW.plus(2 * HOUR), false).unwrap();

    for reopened in [false, true] {
        if reopened {
            case.reopen();
        }
        assert_eq!(case.store.captures().list(&group).unwrap(), ids(3..6));
        for (round, capture) in made.iter().enumerate() {
            let found = case.store.captures().get(&capture.id);
            assert_eq!(found.is_ok(), round >= 3);
            if let Ok(found) = found {
                assert_eq!(
                    (found.id, found.tree, found.time),
                    (capture.id, capture.tree, capture.time)
                );
                assert_eq!(found.coverage, capture.coverage);
                assert!(matches!(
                    case.store.captures().path_image(&found, &path("a")),
                    Ok(PathImage::Present { .. })
                ));
            }
        }
        case.git(&["gc", "-q", "--prune=now"]);
        case.git(&["fsck", "--full"]);
    }
    let again = case.store.capture(&group, NOW).unwrap();
    assert!(!again.is_new);
    assert_eq!(again.capture.id, made[5].id);
    case.write("a", "more");
    let more = case.store.capture(&group, NOW).unwrap().capture.id;
    assert_eq!(case.store.captures().list(&group).unwrap()[..2], [more, made[5].id]);
}

/// Proves R13.
#[test]
fn eviction_drops_unpinned_then_oldest_and_no_more_than_needed() {
    let case = fixture_with_budget(350 << 10);
    let mut rng = SeededRng::new(5);
    let (one, two, gone) = (PinGroup::new("one"), PinGroup::new("two"), PinGroup::new("gone"));
    let mut ids = Vec::new();
    for (round, group) in [&gone, &one, &one, &two, &one, &two].into_iter().enumerate() {
        case.write("a", random_bytes(&mut rng, 40 << 10));
        let paths = paths_of(&["a"]);
        let named = case.store.capture_named(group, &paths, false, NOW.plus(round as i64));
        ids.push(named.unwrap().capture.id);
    }
    let live: BTreeSet<PinGroup> = [one.clone(), two.clone()].into();
    let step = |group: &PinGroup, keep_from| ExpiryStep {
        group: group.clone(),
        keep_from: Some(keep_from),
    };
    let steps = [step(&one, ids[2]), step(&one, ids[4]), step(&two, ids[5])];
    let request = |bytes: usize| EvictionRequest {
        bytes: bytes as u64,
        live: live.clone(),
        effort: 64 << 20,
        now: NOW.plus(2 * HOUR),
    };
    let eviction = || case.store.eviction();

    let report = eviction().reclaim_unpinned(&request(50 << 10)).unwrap();
    assert!(report.fits && report.dropped_groups.is_empty(), "it fits: {report:?}");
    let report = eviction().reclaim_unpinned(&request(120 << 10)).unwrap();
    assert!(report.fits && report.expired.is_empty(), "unpinned objects were enough: {report:?}");
    assert_eq!(report.dropped_groups, ["gone"]);
    let report = eviction().reclaim_unpinned(&request(160 << 10)).unwrap();
    assert!(!report.fits && report.expired.is_empty(), "{report:?}");
    let freed = case.store.expiry().measure(&steps).unwrap();
    assert!(freed.iter().all(|bytes| *bytes > 39 << 10), "each step frees a turn: {freed:?}");
    let report = eviction().expire_captures(&steps[..1], &request(160 << 10)).unwrap();
    assert!(report.fits, "{report:?}");
    let expired: Vec<_> = report.expired.iter().map(|it| (&*it.group, &*it.captures)).collect();
    assert_eq!(expired, [("one", &ids[1..2])], "one turn was enough");
    case.git(&["fsck", "--full"]);

    let report = eviction().expire_captures(&steps, &request(340 << 10)).unwrap();
    assert!(!report.fits, "{report:?}");
    assert_eq!(case.store.captures().list(&two).unwrap(), [ids[5]], "its newest turn stays");
    case.git(&["fsck", "--full"]);
}

/// Proves R14.
#[test]
fn expiring_a_group_keeps_objects_other_groups_hold() {
    let case = fixture_with_budget(1 << 20);
    let (mut rng, guard, other) =
        (SeededRng::new(5), PinGroup::new("restore x"), PinGroup::new("other"));
    let mut capture = |group: &PinGroup, fresh: bool| {
        if fresh {
            case.write("a", random_bytes(&mut rng, 40 << 10));
        }
        let named = case.store.capture_named(group, &paths_of(&["a"]), false, NOW);
        named.unwrap().capture.id
    };
    capture(&guard, true);
    let shared = capture(&other, false);
    capture(&guard, true);
    let steps = [ExpiryStep { group: guard.clone(), keep_from: None }];

    let freed = case.store.expiry().measure(&steps).unwrap();
    assert!(
        freed[0] > 40 << 10 && freed[0] < 60 << 10,
        "only what no other group holds: {freed:?}"
    );
    let live = [other.clone()].into();
    let request = EvictionRequest { bytes: 0, live, effort: 1 << 20, now: NOW };
    let report = case.store.eviction().expire_captures(&steps, &request).unwrap();
    assert_eq!(report.expired[0].captures.len(), 2);
    assert!(report.bytes_after < report.bytes_before - (40 << 10), "{report:?}");
    assert!(
        case.store.eviction().expire_captures(&steps, &request).unwrap().expired.is_empty(),
        "once"
    );
    assert!(case.store.captures().list(&guard).unwrap().is_empty());
    assert_eq!(case.store.captures().list(&other).unwrap(), [shared]);
    case.git(&["fsck", "--full"]);
}
