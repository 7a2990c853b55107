//! Restores: own changes only, nothing overwritten unseen, everything can be undone.

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use support::{NOW, StoreFixture, path, paths_of};
use turnstone_snapshot::{
    Capture, ConflictReason, PathImage, PinGroup, RestoreConflict, RestoreError, RestorePlan,
    RestoreReport, TargetState, UncoveredReason,
};
use turnstone_testkit::fixture::SeededRng;
use turnstone_testkit::test_rounds;

fn guard_group() -> PinGroup {
    PinGroup::new("guard")
}

fn apply(case: &StoreFixture, plan: &RestorePlan) -> RestoreReport {
    case.store.restores().apply_plan(plan, &guard_group(), NOW).expect("the plan is applied")
}

fn restore(case: &StoreFixture, target: &Capture) -> RestoreReport {
    let now = case.capture().capture;
    let plan = case.store.planner().plan_restore(target, &now, None, false).expect("a plan");
    apply(case, &plan)
}

/// The change sets of an edit, as wishes that take it back.
fn target_states(case: &StoreFixture, names: &[&str], edit: impl FnOnce()) -> Vec<TargetState> {
    let before = case.capture_named(names).capture;
    edit();
    let after = case.capture_named(names).capture;
    let image = |capture, name: &str| {
        case.store.captures().path_image(capture, &path(name)).expect("readable")
    };
    let wanted =
        |name: &&str| TargetState::new(path(name), Some(image(&after, name)), image(&before, name));
    names.iter().map(wanted).collect()
}

/// Everything in a directory: bytes, permission bits, links.
fn contents(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs_err::read_dir(folder).expect("listed") {
            let path = entry.expect("entry").path();
            let meta = fs_err::symlink_metadata(&path).expect("there");
            let name = path.strip_prefix(root).expect("below").display().to_string();
            let what = if meta.is_dir() {
                todo.push(path);
                "dir".to_owned()
            } else if meta.is_symlink() {
                format!("-> {}", fs_err::read_link(&path).expect("link").display())
            } else {
                let text =
                    String::from_utf8_lossy(&fs_err::read(&path).expect("read")).into_owned();
                format!("{:o} {text}", meta.permissions().mode() & 0o777)
            };
            found.insert(name, what);
        }
    }
    found
}

#[test]
fn undo_restores_and_removes_files_and_is_itself_undoable() {
    let case = StoreFixture::new();
    case.write("mod", "old");
    case.write("gone/deep", "g");
    case.write("文件", "unicode");
    case.write("q\"\t", "quoted");
    let before = contents(&case.root());
    let names =
        ["mod", "gone", "gone/deep", "文件", "q\"\t", "new", "new/dir", "new/dir/file", "link"];
    let targets = target_states(&case, &names, || {
        case.write("mod", "new");
        fs_err::remove_dir_all(case.at("gone")).unwrap();
        case.write("文件", "changed");
        case.write("q\"\t", "changed");
        case.write("new/dir/file", "n");
        case.link("link", "mod");
    });
    let after = contents(&case.root());
    let plan = case.store.planner().plan_targets(&targets).unwrap();

    let report = apply(&case, &plan);

    assert_eq!(contents(&case.root()), before);
    assert_eq!(report.removed, [path("link"), path("new/dir/file")]);
    assert_eq!(report.restored.len(), 4);
    assert!(report.conflicts.is_empty() && report.guard.is_some());
    let again = apply(&case, &case.store.planner().plan_targets(&plan.inverse()).unwrap());
    assert_eq!(contents(&case.root()), after);
    assert_eq!((again.restored.len(), again.removed.len()), (5, 1));
}

#[test]
fn human_edit_is_merged_or_conflicts_never_overwritten() {
    let case = StoreFixture::new();
    let text = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n{last}\n");
    for name in ["merge", "overlap", "binary", "deleted"] {
        case.write(name, text("1", "7"));
    }
    let targets = target_states(&case, &["merge", "overlap", "binary", "deleted"], || {
        for name in ["merge", "overlap", "deleted"] {
            case.write(name, text("agent", "7"));
        }
        case.write("binary", [0, 1]);
    });
    case.write("merge", text("agent", "human"));
    case.write("overlap", text("human", "7"));
    case.write("binary", [0, 2]);
    case.remove("deleted");
    let plan = case.store.planner().plan_targets(&targets).unwrap();
    assert_eq!(case.read("merge"), text("agent", "human"), "a plan writes nothing");

    let report = apply(&case, &plan);

    assert_eq!(case.read("merge"), text("1", "human"));
    assert_eq!(case.read("overlap"), text("human", "7"));
    assert_eq!(report.merged, [path("merge")]);
    let conflict = |name, why| RestoreConflict { path: path(name), why };
    assert_eq!(
        report.conflicts,
        [
            conflict("binary", ConflictReason::NotMergeable),
            conflict("deleted", ConflictReason::Removed),
            conflict("overlap", ConflictReason::Overlap),
        ]
    );
    assert!(!case.at("deleted").exists());
    apply(&case, &case.store.planner().plan_targets(&plan.inverse()).unwrap());
    assert_eq!(case.read("merge"), text("agent", "human"));
}

/// Proves W35.
#[test]
fn unreadable_tree_is_an_error_and_deletes_nothing() {
    let case = StoreFixture::new();
    case.write("a", "1");
    let now = case.capture().capture;
    let mut lost = now.clone();
    lost.tree = "0123456789012345678901234567890123456789".parse().unwrap();

    let plan = case.store.planner().plan_restore(&lost, &now, None, false);

    assert!(matches!(plan, Err(RestoreError::Object(_))));
    let mut wanted = target_states(&case, &["a"], || case.write("a", "2")).remove(0);
    if let PathImage::Present { leaf, .. } = &mut wanted.links[0].target {
        leaf.blob = lost.tree;
    }
    let plan = case.store.planner().plan_targets(&[wanted]).unwrap();
    let reasons: Vec<UncoveredReason> = plan.not_covered.iter().map(|(_, why)| *why).collect();
    assert_eq!((plan.steps.len(), reasons), (0, vec![UncoveredReason::Missing]));
    assert_eq!(case.read("a"), "2");
}

/// Proves W40.
#[test]
fn unchanged_files_are_not_written() {
    let case = StoreFixture::new();
    case.write("same", "s");
    case.write("changed", "1");
    let target = case.capture().capture;
    let before = fs_err::metadata(case.at("same")).unwrap();
    case.write("changed", "2");

    let report = restore(&case, &target);

    let after = fs_err::metadata(case.at("same")).unwrap();
    assert_eq!((before.ino(), before.ctime_nsec()), (after.ino(), after.ctime_nsec()));
    assert_eq!(report.restored, [path("changed")]);
}

/// Proves R1.
#[test]
fn uncovered_paths_are_reported_and_left_alone() {
    let case = StoreFixture::new_git_checkout();
    case.write("secret", "s");
    let target = case.capture().capture;
    case.write(".gitignore", "secret\n");
    case.write("secret", "changed while ignored");

    let report = restore(&case, &target);

    assert_eq!(report.not_covered, [(path("secret"), UncoveredReason::Ignored)]);
    assert_eq!(case.read("secret"), "changed while ignored");
    assert_eq!(report.removed, [path(".gitignore")]);
}

#[test]
fn only_selected_paths_are_restored() {
    let case = StoreFixture::new();
    for name in ["a/x", "a/y", "b"] {
        case.write(name, "1");
    }
    let target = case.capture().capture;
    for name in ["a/x", "a/y", "b", "a/new"] {
        case.write(name, "2");
    }
    let now = case.capture().capture;
    let chosen = paths_of(&["a"]);
    let plan = case.store.planner().plan_restore(&target, &now, Some(&chosen), true).unwrap();

    apply(&case, &plan);

    assert_eq!((case.read("a/x"), case.read("b"), case.read("a/new")).0, "1");
    assert_eq!((case.read("b"), case.read("a/new")), ("2".to_owned(), "2".to_owned()));
}

/// Proves R17.
#[test]
fn every_file_kind_transition_is_restored_and_undone() {
    type Make = fn(&StoreFixture);
    let kinds: [(&str, Make); 5] = [
        ("absent", |_| {}),
        ("file", |case| case.write("p", "file")),
        ("exec", |case| {
            case.write("p", "exec");
            case.chmod("p", 0o755);
        }),
        ("link", |case| case.link("p", "elsewhere")),
        ("directory", |case| {
            case.write("p/a", "a");
            case.write("p/b/c", "c");
        }),
    ];
    for (one, make_one) in &kinds {
        for (other, make_other) in &kinds {
            let case = StoreFixture::in_memory();
            case.write("keep", "k");
            make_one(&case);
            let target = case.capture().capture;
            let wanted = contents(&case.root());
            let folder = case.at("p");
            if folder.is_dir() && !folder.is_symlink() {
                fs_err::remove_dir_all(&folder).unwrap();
            } else if *one != "absent" {
                case.remove("p");
            }
            make_other(&case);
            let edited = contents(&case.root());
            let now = case.capture().capture;
            let plan = case.store.planner().plan_restore(&target, &now, None, false).unwrap();

            let report = apply(&case, &plan);

            assert_eq!(contents(&case.root()), wanted, "{other} to {one}: {report:?}");
            apply(&case, &case.store.planner().plan_targets(&plan.inverse()).unwrap());
            assert_eq!(contents(&case.root()), edited, "{one} to {other}");
        }
    }
}

/// Proves R17.
#[test]
fn foreign_file_in_removed_directory_conflicts_the_whole_group() {
    let case = StoreFixture::new();
    case.write("p", "file");
    let targets = target_states(&case, &["p", "p/a", "p/b"], || {
        case.remove("p");
        case.write("p/a", "a");
        case.write("p/b", "b");
    });
    case.write("p/foreign", "mine");
    let before = contents(&case.root());

    let report = apply(&case, &case.store.planner().plan_targets(&targets).unwrap());

    assert_eq!(contents(&case.root()), before);
    assert_eq!(report.conflicts.len(), 3);
    assert!(report.conflicts.iter().all(|it| it.why == ConflictReason::InTheWay), "{report:?}");
}

/// Proves R18.
#[test]
fn restore_handles_permissions_hard_links_and_recreated_files() {
    let case = StoreFixture::new();
    case.write("secret", "s");
    case.chmod("secret", 0o640);
    case.write("twice", "1");
    fs_err::hard_link(case.at("twice"), case.dir.path().join("other name")).unwrap();
    let target = case.capture().capture;
    case.remove("secret");
    case.write("twice", "2");

    let report = restore(&case, &target);

    let mode = fs_err::metadata(case.at("secret")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(report.in_place, [path("twice")]);
    assert_eq!(fs_err::read(case.dir.path().join("other name")).unwrap(), b"1");
}

/// Proves S2.
#[test]
fn restore_does_not_follow_a_parent_replaced_by_a_link() {
    let case = StoreFixture::new();
    let outside = tempfile::tempdir().unwrap();
    fs_err::write(outside.path().join("f"), "1").unwrap();
    case.write("d/f", "1");
    let targets = target_states(&case, &["d/f"], || case.write("d/f", "2"));
    fs_err::remove_dir_all(case.at("d")).unwrap();
    fs_err::write(outside.path().join("f"), "2").unwrap();
    let late = case.store.planner().plan_targets(&targets).unwrap();
    case.link("d", outside.path().to_str().unwrap());

    let report = apply(&case, &case.store.planner().plan_targets(&targets).unwrap());
    assert_eq!(report.not_covered, [(path("d/f"), UncoveredReason::BehindLink)]);
    let report = apply(&case, &late);
    assert!(report.restored.is_empty() && report.removed.is_empty());
    assert_eq!(fs_err::read(outside.path().join("f")).unwrap(), b"2");
}

/// A thousand saves in four rows, each at one of two moments, by rename or in place; and as many
/// where names cannot change places, and where a name cannot be kept from being replaced either.
macro_rules! rows_of_saves {
    ($($name:ident $row:literal $without:literal)*) => {$(
        #[test]
        fn $name() {
            save_during_restore($row, $without);
        }
    )*};
}

rows_of_saves! {
    no_save_between_compare_and_swap_is_lost_r15_row_1 1 ""
    no_save_between_compare_and_swap_is_lost_r15_row_2 2 ""
    no_save_between_compare_and_swap_is_lost_r15_row_3 3 ""
    no_save_between_compare_and_swap_is_lost_r15_row_4 4 ""
    no_save_is_lost_without_exchange_r15_row_1 5 "snapshot::no_exchange"
    no_save_is_lost_without_exchange_r15_row_2 6 "snapshot::no_exchange"
    no_save_is_lost_without_exchange_r15_row_3 7 "snapshot::no_exchange"
    no_save_is_lost_without_exchange_r15_row_4 8 "snapshot::no_exchange"
    no_save_is_lost_without_any_flag_of_rename_r15 9 "snapshot::no_flags"
}

fn save_during_restore(row: u64, without: &str) {
    let scenario = fail::FailScenario::setup();
    let mut points = vec!["snapshot::before_swap", "snapshot::swapped"];
    if !without.is_empty() {
        fail::cfg(without, "return").expect("a point");
        points.extend(["snapshot::moved_aside", "snapshot::moved_in"]);
    }
    let mut rng = SeededRng::new(row);
    let mut kept = 0;
    let mut case = StoreFixture::in_memory();
    for seed in 0..test_rounds::choose_rounds(row, 250) {
        if seed % 20 == 0 {
            case = StoreFixture::in_memory();
        }
        fs_err::remove_file(case.at("f")).ok();
        let removes = rng.below(2) == 0;
        let by_rename = rng.below(2) == 0;
        if !removes {
            case.write("f", "before");
        }
        let targets = target_states(&case, &["f"], || case.write("f", "after"));
        let plan = case.store.planner().plan_targets(&targets).expect("a plan");
        let saves = rng.below(4) != 0;
        let (file, spare) = (case.at("f"), case.dir.path().join("spare"));
        let point = *rng.choose(&points).expect("a point");
        // Nothing moves aside where nothing is replaced.
        let saves = saves && !(removes && point.contains("moved"));
        let saved = format!("saved {seed}");
        let text = saved.clone();
        fail::cfg_callback(point, move || {
            if !saves {
                return;
            }
            if by_rename {
                fs_err::write(&spare, &text).expect("written");
                fs_err::rename(&spare, &file).expect("renamed");
            } else {
                fs_err::write(&file, &text).expect("written");
            }
        })
        .expect("a point");

        let report = apply(&case, &plan);

        fail::remove(point);
        if saves {
            kept += 1;
            assert_eq!(case.read("f"), saved, "seed {seed} {point} {report:?}");
            assert_eq!(report.conflicts.len(), 1, "seed {seed} {point}");
        } else {
            assert!(report.conflicts.is_empty());
        }
        let left = fs_err::read_dir(case.root()).expect("listed").count();
        assert_eq!(left, usize::from(saves || !removes), "seed {seed}: no temporary file is left");
    }
    assert!(kept > 125);
    scenario.teardown();
}

#[test]
fn random_edits_are_undone_byte_for_byte() {
    for seed in 0..test_rounds::choose_rounds(0, 60) {
        let mut rng = SeededRng::new(seed);
        let case = StoreFixture::in_memory();
        for _ in 0..rng.in_range(3..=25) {
            edit(&case, &mut rng);
        }
        let target = case.capture().capture;
        let wanted = files_without_empty_dirs(&case);
        for _ in 0..rng.in_range(1..=25) {
            edit(&case, &mut rng);
        }
        remove_empty_dirs(&case.root());
        let edited = files_without_empty_dirs(&case);
        let now = case.capture().capture;
        assert_eq!(now.tree.to_string(), case.git_write_tree(), "seed {seed}");
        let plan = case.store.planner().plan_restore(&target, &now, None, false).unwrap();

        let report = apply(&case, &plan);

        assert!(report.conflicts.is_empty(), "seed {seed}: {report:?}");
        assert_eq!(files_without_empty_dirs(&case), wanted, "seed {seed}");
        assert_eq!(case.capture().capture.tree, target.tree, "seed {seed}");
        apply(&case, &case.store.planner().plan_targets(&plan.inverse()).unwrap());
        assert_eq!(files_without_empty_dirs(&case), edited, "seed {seed}");
    }
}

fn files_without_empty_dirs(case: &StoreFixture) -> BTreeMap<String, String> {
    contents(&case.root()).into_iter().filter(|(_, what)| what != "dir").collect()
}

/// Git knows no empty directories, and a restore removes none that it did not empty.
fn remove_empty_dirs(folder: &Path) {
    for entry in fs_err::read_dir(folder).expect("listed") {
        let path = entry.expect("entry").path();
        if path.is_dir() && !path.is_symlink() {
            remove_empty_dirs(&path);
            fs_err::remove_dir(&path).ok();
        }
    }
}

fn edit(case: &StoreFixture, rng: &mut SeededRng) {
    let depth = rng.in_range(1..=3);
    let parts: Vec<String> = (0..depth).map(|_| format!("n{}", rng.below(3))).collect();
    let name = parts.join("/");
    let at = case.at(&name);
    for above in at.ancestors().skip(1).take(depth as usize - 1) {
        if fs_err::symlink_metadata(above).is_ok_and(|meta| !meta.is_dir()) {
            fs_err::remove_file(above).expect("removed");
        }
    }
    match fs_err::symlink_metadata(&at) {
        Ok(meta) if meta.is_dir() => fs_err::remove_dir_all(&at).expect("removed"),
        Ok(_) => fs_err::remove_file(&at).expect("removed"),
        Err(_) => {}
    }
    match rng.below(4) {
        0 => {}
        1 => {
            fs_err::create_dir_all(at.parent().expect("a parent")).expect("made");
            case.link(&name, &format!("t{}", rng.below(9)));
        }
        _ => {
            case.write(&name, format!("text {}\n", rng.below(1000)));
            if rng.below(3) == 0 {
                case.chmod(&name, 0o755);
            }
        }
    }
}

/// Proves R18.
#[test]
fn restore_brings_back_permissions_most_files_lost() {
    let case = StoreFixture::new();
    let chmod = |name: &str, mode: u32| {
        fs_err::set_permissions(case.at(name), PermissionsExt::from_mode(mode)).expect("chmod");
    };
    let names = ["a", "b", "sub/c", "sub/d"];
    names.iter().for_each(|name| case.write(name, name));
    names.iter().for_each(|name| chmod(name, 0o644));
    chmod("sub/d", 0o600);
    let before = case.capture().capture;
    // What is usual is another now: no file is listed as unusual in both.
    names.iter().for_each(|name| chmod(name, 0o664));

    let report = restore(&case, &before);

    assert_eq!(report.restored.len(), 4, "{report:?}");
    let bits = |name: &str| fs_err::metadata(case.at(name)).expect("there").mode() & 0o7777;
    assert_eq!(names.map(bits), [0o644, 0o644, 0o644, 0o600]);
}
