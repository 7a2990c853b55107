//! Removing a store: nothing but a store goes, and never one that somebody keeps.

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use support::Case;
use turnstone_snapshot::{Cadence, RemovalError, remove_store, sweep_stores};

const HOUR: i64 = 3_600_000;

#[test]
fn a_store_is_removed_whole_and_nothing_else_ever_is_r41() {
    let case = Case::new();
    case.write("a", "kept by nobody else");
    case.capture();
    let stores = case.dir.path();
    let kept = remove_store(stores, "store").unwrap_err();
    assert!(matches!(kept, RemovalError::Kept(_)), "{kept:?}");
    let Case { dir, shadow, .. } = case;
    drop(shadow);
    std::os::unix::fs::symlink(dir.path().join("store"), dir.path().join("link")).unwrap();

    for outside in ["link", "..", ".", "", "work/../store", "/tmp", "store/", "missing"] {
        assert!(remove_store(dir.path(), outside).is_err(), "{outside:?}");
    }
    let other = remove_store(dir.path(), "work").unwrap_err();
    assert!(matches!(other, RemovalError::NotAStore(_)), "{other:?}");
    assert!(dir.path().join("store/git/HEAD").exists());
    assert!(remove_store(dir.path(), "store").unwrap() > 0);
    assert!(!dir.path().join("store").exists());
    assert!(dir.path().join("work/a").exists());
    assert_eq!(sweep_stores(dir.path()).unwrap(), 0);
}

#[test]
fn a_removal_that_was_cut_off_is_finished_later() {
    let case = Case::new();
    case.capture();
    let Case { dir, shadow, .. } = case;
    drop(shadow);
    let dead = dir.path().join("tmp_turnstone_removed-1");
    fs_err::rename(dir.path().join("store"), dead).unwrap();

    assert_eq!(sweep_stores(dir.path()).unwrap(), 1);
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 1, "the worktree");
}

#[test]
fn a_collection_is_due_hourly_for_a_keeper_and_daily_for_a_command_r41() {
    let now = support::NOW;
    let ago = |ms: i64| Some(now.plus(-ms));

    assert!(Cadence::Keeper.is_due(None, now) && Cadence::Command.is_due(None, now));
    assert!(Cadence::Keeper.is_due(ago(HOUR), now) && !Cadence::Keeper.is_due(ago(HOUR - 1), now));
    assert!(Cadence::Command.is_due(ago(24 * HOUR), now));
    assert!(!Cadence::Command.is_due(ago(23 * HOUR), now));
    assert!(Cadence::Command.is_due(ago(-1), now), "a clock that was wrong does not stop it");
}

#[test]
fn disk_use_tells_groups_paths_and_what_nobody_keeps() {
    let case = Case::new();
    let [one, two, gone] = ["one", "two", "gone"].map(turnstone_snapshot::Group::new);
    let text = |seed: u64| (0..400).map(|it| format!("{}\n", it * seed)).collect::<String>();
    case.write("shared", text(7919));
    case.write("mine", text(104_729));
    case.shadow.capture(&gone, support::NOW).unwrap();
    case.write("mine", text(1_299_709));
    case.shadow.capture(&one, support::NOW).unwrap();
    case.write("mine", text(15_485_863));
    case.shadow.capture(&one, support::NOW).unwrap();
    case.remove("mine");
    case.shadow.capture(&two, support::NOW).unwrap();
    fs_err::remove_dir_all(case.shadow.git_dir().join("refs/turnstone")).unwrap();
    fs_err::create_dir(case.shadow.git_dir().join("refs/turnstone")).unwrap();
    let nobody = case.shadow.disk_use(10).unwrap();
    assert!(nobody.groups.is_empty() && nobody.unpinned > 3000);
    let case = Case::new();
    case.write("shared", text(7919));
    for (seed, group) in [(3, &one), (5, &one), (7, &two)] {
        case.write("mine", text(seed * 104_729));
        case.shadow.capture(group, support::NOW).unwrap();
    }

    let found = case.shadow.disk_use(1).unwrap();

    let groups: Vec<_> = found.groups.iter().map(|it| (&*it.group, it.captures)).collect();
    assert_eq!(groups, [("one", 2), ("two", 1)]);
    assert!(found.groups.iter().all(|it| it.shared > 500 && it.unique > 500));
    assert_eq!(found.largest.len(), 1);
    assert_eq!(
        (found.largest[0].path.to_string().as_str(), found.largest[0].versions),
        ("mine", 3)
    );
    assert_eq!((found.unpinned, found.usage.groups), (0, 2));
}
