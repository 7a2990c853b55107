//! The budget: what does not fit is refused whole, and room is made in the order of R13.

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use noise::{budgeted, files_of_packs, noise};
use support::{Case, NOW, path, paths_of};
use turnstone_snapshot::{
    Budget, CaptureError, ExpireError, Expiry, Floor, Group, Image, Limit, OverBudget, Room,
};
use turnstone_testkit::fixture::Rng;

const HOUR: i64 = 3_600_000;

#[cfg(test)]
mod noise {
    //! Stores with a budget, and bytes that do not compress.

    use turnstone_snapshot::{Budget, Floor};
    use turnstone_testkit::fixture::Rng;

    use crate::support::Case;

    pub(crate) fn noise(rng: &mut Rng, size: usize) -> Vec<u8> {
        (0..size).map(|_| rng.below(256) as u8).collect()
    }

    pub(crate) fn budgeted(store: u64) -> Case {
        Case::new().with_budget(Budget { store, floor: Floor::Bytes(0), ..Budget::default() })
    }

    pub(crate) fn files_of_packs(case: &Case) -> Vec<String> {
        let folder = case.shadow.git_dir().join("objects/pack");
        let names = fs_err::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_capture_over_the_budget_is_refused_and_leaves_nothing_r13() {
    let case = budgeted(64 << 10);
    let mut rng = Rng::new(1);
    case.write("a", noise(&mut rng, 20 << 10));
    let kept = case.capture();
    let before = files_of_packs(&case);
    case.write("b", noise(&mut rng, 50 << 10));

    let refused = case.shadow.capture(&Group::new("test"), NOW).unwrap_err();

    let CaptureError::OverBudget(OverBudget { which, used, limit, needed, lent }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((which, limit, lent), (Limit::Store, 64 << 10, 0));
    assert_eq!(used, case.shadow.usage().unwrap().bytes);
    assert!(needed > 50 << 10 && needed < 60 << 10, "{needed}");
    assert_eq!(files_of_packs(&case), before);
    assert_eq!(case.shadow.list_captures(&Group::new("test")).unwrap(), [kept.capture.id]);
    case.remove("b");
    case.write("c", "small");
    assert!(case.capture().is_new, "what fits is captured");
    case.git(&["fsck", "--full"]);
}

#[test]
fn the_total_counts_the_other_stores_r13() {
    let other = Case::new();
    let mut rng = Rng::new(2);
    other.write("a", noise(&mut rng, 50 << 10));
    other.capture();
    let taken = other.shadow.usage().unwrap().bytes;
    let case = Case::new();
    fs_err::create_dir(case.dir.path().join("stores")).unwrap();
    let linked = case.dir.path().join("stores/other");
    std::os::unix::fs::symlink(other.dir.path().join("store"), linked).unwrap();
    let stores = Some(case.dir.path().join("stores"));
    let total = 80 << 10;
    let floor = Floor::Bytes(0);
    let case = case.with_budget(Budget { total, stores, floor, ..Budget::default() });
    case.write("a", noise(&mut rng, 40 << 10));

    let refused = case.shadow.capture(&Group::new("test"), NOW).unwrap_err();

    let CaptureError::OverBudget(over) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((over.which, over.limit, over.used), (Limit::Total, total, taken));
}

#[test]
fn below_the_floor_nothing_is_captured_and_no_guard_is_made_r14() {
    let case = Case::new();
    case.write("a", "old");
    let old = case.capture().capture;
    case.write("a", "new");
    let new = case.capture().capture;
    let plan = case.shadow.plan_restore(&old, &new, None, false).unwrap();
    let floor = Floor::Bytes(u64::MAX);
    let case = case.with_budget(Budget { floor, ..Budget::default() });
    case.write("b", "b");

    let refused = case.shadow.capture(&Group::new("test"), NOW).unwrap_err();
    assert!(matches!(refused, CaptureError::BelowFloor { .. }), "{refused:?}");
    assert!(case.shadow.apply(&plan, &Group::new("guard"), NOW).is_err());
    assert_eq!(case.read("a"), "new", "without a guard nothing is overwritten");
    assert!(!files_of_packs(&case).iter().any(|name| name.contains("tmp_")));
}

#[test]
fn a_guard_is_made_past_the_budget_r14() {
    let case = Case::new();
    let mut rng = Rng::new(3);
    case.write("a", "old");
    let old = case.capture().capture;
    case.write("a", noise(&mut rng, 30 << 10));
    let new = case.capture().capture;
    let plan = case.shadow.plan_restore(&old, &new, None, false).unwrap();
    let case = case.with_budget(Budget { store: 1, floor: Floor::Bytes(0), ..Budget::default() });

    let report = case.shadow.apply(&plan, &Group::new("guard"), NOW).unwrap();

    assert_eq!(report.restored, [path("a")]);
    assert_eq!(case.read("a"), "old");
    let guard = case.shadow.get_capture(&report.guard.unwrap()).unwrap();
    let kept = case.shadow.image(&guard, &path("a")).unwrap();
    assert_eq!(kept, case.shadow.image(&new, &path("a")).unwrap());
}

#[test]
fn expired_captures_go_and_the_others_keep_their_ids_r9() {
    let mut case = Case::new();
    let group = Group::new("test");
    let made: Vec<_> = (0..6)
        .map(|round| {
            case.write("a", format!("{round}"));
            case.shadow.capture(&group, NOW.plus(round)).unwrap().capture
        })
        .collect();
    let ids = |range: std::ops::Range<usize>| -> Vec<_> {
        made[range].iter().rev().map(|it| it.id).collect()
    };

    assert_eq!(case.shadow.expire(&group, &made[2].id).unwrap(), ids(0..2));
    assert_eq!(case.shadow.expire(&group, &made[3].id).unwrap(), ids(2..3), "twice over");
    assert!(case.shadow.expire(&group, &made[3].id).unwrap().is_empty());
    let unknown = case.shadow.expire(&group, &made[0].id).unwrap_err();
    assert!(matches!(unknown, ExpireError::NotInGroup { .. }));
    case.shadow.gc(&[group.clone()].into(), NOW.plus(2 * HOUR), false).unwrap();

    for reopened in [false, true] {
        if reopened {
            case.reopen();
        }
        assert_eq!(case.shadow.list_captures(&group).unwrap(), ids(3..6));
        for (round, capture) in made.iter().enumerate() {
            let found = case.shadow.get_capture(&capture.id);
            assert_eq!(found.is_ok(), round >= 3);
            if let Ok(found) = found {
                assert_eq!(
                    (found.id, found.tree, found.time),
                    (capture.id, capture.tree, capture.time)
                );
                assert_eq!(found.coverage, capture.coverage);
                assert!(matches!(case.shadow.image(&found, &path("a")), Ok(Image::Present { .. })));
            }
        }
        case.git(&["gc", "-q", "--prune=now"]);
        case.git(&["fsck", "--full"]);
    }
    let again = case.shadow.capture(&group, NOW).unwrap();
    assert!(!again.is_new);
    assert_eq!(again.capture.id, made[5].id);
    case.write("a", "more");
    let more = case.shadow.capture(&group, NOW).unwrap().capture.id;
    assert_eq!(case.shadow.list_captures(&group).unwrap()[..2], [more, made[5].id]);
}

#[test]
fn room_is_made_in_order_unpinned_then_oldest_turns_and_no_more_than_needed_r13() {
    let case = budgeted(350 << 10);
    let mut rng = Rng::new(5);
    let (one, two, gone) = (Group::new("one"), Group::new("two"), Group::new("gone"));
    let mut ids = Vec::new();
    for (round, group) in [&gone, &one, &one, &two, &one, &two].into_iter().enumerate() {
        case.write("a", noise(&mut rng, 40 << 10));
        let paths = paths_of(&["a"]);
        let named = case.shadow.capture_named(group, &paths, false, NOW.plus(round as i64));
        ids.push(named.unwrap().capture.id);
    }
    let live = [one.clone(), two.clone()].into();
    let step =
        |group: &Group, keep_from| Expiry { group: group.clone(), keep_from: Some(keep_from) };
    let expiry = [step(&one, ids[2]), step(&one, ids[4]), step(&two, ids[5])];
    let now = NOW.plus(2 * HOUR);
    let room = Room { needed: 0, live: &live, now, expiry: &expiry, effort: 64 << 20 };
    let capture = |size: usize, rng: &mut Rng| {
        case.write("a", noise(rng, size));
        let mut relief = None;
        let done = case.shadow.capture_within(&room, &mut relief, |shadow| {
            shadow.capture_named(&one, &paths_of(&["a"]), false, now)
        });
        (done, relief)
    };

    let (done, relief) = capture(50 << 10, &mut rng);
    assert!(done.is_ok() && relief.is_none(), "it fits: {relief:?}");
    let (done, relief) = capture(40 << 10, &mut rng);
    let relief = relief.unwrap();
    assert!(done.is_ok() && relief.fits, "{relief:?}");
    assert_eq!(relief.dropped_groups, ["gone"]);
    assert!(relief.expired.is_empty(), "what nobody needs was enough: {relief:?}");
    let (done, relief) = capture(90 << 10, &mut rng);
    let relief = relief.unwrap();
    assert!(done.is_ok() && relief.fits);
    let expired: Vec<_> = relief.expired.iter().map(|it| (&*it.group, &*it.captures)).collect();
    assert_eq!(expired, [("one", &[ids[2], ids[1]][..])], "two turns were needed, the third not");
    assert!(case.shadow.usage().unwrap().bytes <= 350 << 10);
    case.git(&["fsck", "--full"]);

    let (done, relief) = capture(340 << 10, &mut rng);
    let relief = relief.unwrap();
    assert!(matches!(done, Err(CaptureError::OverBudget(_))) && !relief.fits);
    assert_eq!(case.shadow.list_captures(&two).unwrap(), [ids[5]], "its newest turn stays");
    case.git(&["fsck", "--full"]);
}

#[test]
fn a_whole_group_can_go_and_what_another_one_holds_stays_r14() {
    let case = budgeted(1 << 20);
    let (mut rng, guard, other) = (Rng::new(5), Group::new("restore x"), Group::new("other"));
    let mut capture = |group: &Group, fresh: bool| {
        if fresh {
            case.write("a", noise(&mut rng, 40 << 10));
        }
        let named = case.shadow.capture_named(group, &paths_of(&["a"]), false, NOW);
        named.unwrap().capture.id
    };
    capture(&guard, true);
    let shared = capture(&other, false);
    capture(&guard, true);
    let steps = [Expiry { group: guard.clone(), keep_from: None }];

    let freed = case.shadow.measure_expiry(&steps).unwrap();
    assert!(freed[0] > 40 << 10 && freed[0] < 60 << 10, "only what nobody else holds: {freed:?}");
    let live = [other.clone()].into();
    let room = Room { needed: 0, live: &live, now: NOW, expiry: &steps, effort: 1 << 20 };
    let relief = case.shadow.expire_steps(&room).unwrap();
    assert_eq!(relief.expired[0].captures.len(), 2);
    assert!(relief.bytes_after < relief.bytes_before - (40 << 10), "{relief:?}");
    assert!(case.shadow.expire_steps(&room).unwrap().expired.is_empty(), "once");
    assert!(case.shadow.list_captures(&guard).unwrap().is_empty());
    assert_eq!(case.shadow.list_captures(&other).unwrap(), [shared]);
    case.git(&["fsck", "--full"]);
}
