//! Removing a store: only a store is removed, and never one that a process owns.

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use support::StoreFixture;
use turnstone_snapshot::{MaintenanceInterval, RemovalError, StoreRegistry, remove_store};

const HOUR: i64 = 3_600_000;

/// Proves R41.
#[test]
fn remove_store_removes_only_a_real_store() {
    let case = StoreFixture::new();
    case.write("a", "kept by no other store");
    case.capture();
    let stores = case.dir.path();
    let kept = remove_store(stores, "store").unwrap_err();
    assert!(matches!(kept, RemovalError::Locked(_)), "{kept:?}");
    let StoreFixture { dir, store, .. } = case;
    drop(store);
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
}

/// Proves R41.
#[test]
fn interrupted_removal_is_finished_by_maintenance() {
    let case = StoreFixture::new();
    case.capture();
    let StoreFixture { dir, store, .. } = case;
    drop(store);
    let stores = dir.path().join("data/store");
    let registry = StoreRegistry::new(&dir.path().join("data"));
    assert!(registry.remove_orphaned_stores(0, support::NOW, false).unwrap().is_empty());
    fs_err::create_dir_all(&stores).unwrap();
    let renamed = stores.join("tmp_turnstone_removed-1");
    fs_err::rename(dir.path().join("store"), &renamed).unwrap();

    assert!(registry.remove_orphaned_stores(0, support::NOW, true).unwrap().is_empty());
    assert!(renamed.exists(), "a dry run changes nothing");
    assert!(registry.remove_orphaned_stores(0, support::NOW, false).unwrap().is_empty());
    assert_eq!(fs_err::read_dir(&stores).unwrap().count(), 0);
}

/// Proves R41.
#[test]
fn maintenance_is_due_hourly_for_owner_and_daily_for_command() {
    let now = support::NOW;
    let ago = |ms: i64| Some(now.plus(-ms));

    assert!(
        MaintenanceInterval::Hourly.is_due(None, now)
            && MaintenanceInterval::Daily.is_due(None, now)
    );
    assert!(
        MaintenanceInterval::Hourly.is_due(ago(HOUR), now)
            && !MaintenanceInterval::Hourly.is_due(ago(HOUR - 1), now)
    );
    assert!(MaintenanceInterval::Daily.is_due(ago(24 * HOUR), now));
    assert!(!MaintenanceInterval::Daily.is_due(ago(23 * HOUR), now));
    assert!(
        MaintenanceInterval::Daily.is_due(ago(-1), now),
        "a clock that was wrong does not stop it"
    );
}

#[test]
fn disk_usage_lists_groups_paths_and_unpinned_bytes() {
    let case = StoreFixture::new();
    let [one, two, gone] = ["one", "two", "gone"].map(turnstone_snapshot::PinGroup::new);
    let text = |seed: u64| (0..400).map(|it| format!("{}\n", it * seed)).collect::<String>();
    case.write("shared", text(7919));
    case.write("mine", text(104_729));
    case.store.capture(&gone, support::NOW).unwrap();
    case.write("mine", text(1_299_709));
    case.store.capture(&one, support::NOW).unwrap();
    case.write("mine", text(15_485_863));
    case.store.capture(&one, support::NOW).unwrap();
    case.remove("mine");
    case.store.capture(&two, support::NOW).unwrap();
    fs_err::remove_dir_all(case.store.git_dir().join("refs/turnstone")).unwrap();
    fs_err::create_dir(case.store.git_dir().join("refs/turnstone")).unwrap();
    let unpinned = case.store.inspection().disk_usage(10).unwrap();
    assert!(unpinned.groups.is_empty() && unpinned.unpinned > 3000);
    let case = StoreFixture::new();
    case.write("shared", text(7919));
    for (seed, group) in [(3, &one), (5, &one), (7, &two)] {
        case.write("mine", text(seed * 104_729));
        case.store.capture(group, support::NOW).unwrap();
    }

    let found = case.store.inspection().disk_usage(1).unwrap();

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
