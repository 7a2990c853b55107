//! Plans: what a restore would do, with permission bits, directories and obstacles.

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use std::os::unix::fs::PermissionsExt;

use support::{NOW, StoreFixture, path, paths_of};
use turnstone_snapshot::{
    Capture, ConflictReason, FileMode, PathImage, PinGroup, RestorePlan, RestoreReport, TargetState,
};

/// What undoes everything that happened between two captures.
fn undo_targets(case: &StoreFixture, before: &Capture, after: &Capture) -> Vec<TargetState> {
    let changes = case.store.captures().list_changes(before, after).expect("readable");
    let target = |change: turnstone_core::change::FileChange| {
        TargetState::new(change.path, Some(change.after), change.before)
    };
    changes.into_iter().map(target).collect()
}

fn plan(case: &StoreFixture, targets: &[TargetState]) -> RestorePlan {
    case.store.planner().plan_targets(targets).expect("a plan")
}

fn apply(case: &StoreFixture, plan: &RestorePlan) -> RestoreReport {
    case.store.restores().apply_plan(plan, &PinGroup::new("guard"), NOW).expect("applied")
}

fn mode_of(case: &StoreFixture, name: &str) -> u32 {
    fs_err::symlink_metadata(case.at(name)).expect("there").permissions().mode() & 0o7777
}

/// Proves R18.
#[test]
fn merged_text_gets_merged_permission_bits() {
    let case = StoreFixture::new();
    case.write("f", "1\n2\n3\n4\n5\n");
    case.chmod("f", 0o644);
    let before = case.capture().capture;
    case.write("f", "one\n2\n3\n4\n5\n");
    case.chmod("f", 0o755);
    let after = case.capture().capture;
    case.write("f", "one\n2\n3\n4\nfive\n");
    case.chmod("f", 0o751);

    let planned = plan(&case, &undo_targets(&case, &before, &after));

    let target = planned.steps[0].target;
    assert_eq!(target.leaf().unwrap().mode, FileMode::File, "the turn had made it executable");
    assert!(planned.steps[0].merged);
    apply(&case, &planned);
    assert_eq!((case.read("f").as_str(), mode_of(&case, "f")), ("1\n2\n3\n4\nfive\n", 0o640));
    apply(&case, &plan(&case, &planned.inverse()));
    assert_eq!((case.read("f").as_str(), mode_of(&case, "f")), ("one\n2\n3\n4\nfive\n", 0o751));
}

#[test]
fn restore_keeps_added_files_and_chooses_paths_by_their_directory() {
    let case = StoreFixture::new();
    case.write("d/sub/f", "1");
    case.write("e", "1");
    let target = case.capture().capture;
    for name in ["d/sub/f", "e", "d/added", "added"] {
        case.write(name, "2");
    }
    let now = case.capture().capture;
    let planned = |paths: &[&str], keep_added: bool| {
        let paths = (!paths.is_empty()).then(|| paths_of(paths));
        let planner = case.store.planner();
        let plan = planner.plan_restore(&target, &now, paths.as_ref(), keep_added).unwrap();
        plan.steps.iter().map(|step| step.path.to_string()).collect::<Vec<_>>()
    };

    assert_eq!(planned(&[], false), ["added", "d/added", "d/sub/f", "e"]);
    assert_eq!(planned(&[], true), ["d/sub/f", "e"]);
    assert_eq!(planned(&["d"], false), ["d/added", "d/sub/f"]);
    assert_eq!(planned(&["d"], true), ["d/sub/f"]);
    assert_eq!(planned(&["d/sub/f"], false), ["d/sub/f"]);
    assert!(planned(&["d/su"], false).is_empty());
}

/// Proves R16.
#[test]
fn path_behind_a_link_is_planned_only_if_the_link_goes() {
    let case = StoreFixture::new();
    case.write("d/f", "f");
    let before = case.capture().capture;
    fs_err::rename(case.at("d"), case.dir.path().join("moved")).unwrap();
    case.link("d", "../moved");
    let after = case.capture().capture;
    let targets = undo_targets(&case, &before, &after);
    let only_file: Vec<TargetState> =
        targets.iter().filter(|target| target.path == path("d/f")).cloned().collect();

    let alone = plan(&case, &only_file);
    assert!(alone.steps.is_empty() && alone.not_covered.len() == 1, "{alone:?}");
    apply(&case, &plan(&case, &targets));
    assert_eq!(case.read("d/f"), "f");
    assert!(!fs_err::symlink_metadata(case.at("d")).unwrap().is_symlink());
}

/// Proves R1.
#[test]
fn directories_without_a_record_are_left_alone() {
    let case = StoreFixture::new();
    case.write("kept", "1");
    let before = case.capture().capture;
    case.write("d/f", "f");
    let mut after = case.capture().capture;
    let mut coverage = (*after.coverage).clone();
    coverage.directories = None;
    after.coverage = coverage.into();

    let targets = undo_targets(&case, &before, &after);
    apply(&case, &plan(&case, &targets));

    assert!(!case.at("d/f").exists() && case.at("d").is_dir());
}

/// Proves R1.
#[test]
fn named_captures_record_missing_parents() {
    let case = StoreFixture::new();
    case.write("there/old", "1");
    let names = ["new/deep/f", "there/g"];
    let before = case.capture_named(&names).capture;
    for name in names {
        case.write(name, "f");
    }
    let after = case.capture_named(&names).capture;
    let image = |capture, name| case.store.captures().path_image(capture, &path(name)).unwrap();
    assert_eq!(image(&before, "new"), PathImage::Absent);
    assert!(image(&before, "there").is_directory() && image(&after, "new/deep").is_directory());

    let report = apply(&case, &plan(&case, &undo_targets(&case, &before, &after)));

    assert_eq!(report.directories, [path("new"), path("new/deep")]);
    assert!(!case.at("new").exists() && case.at("there").is_dir(), "{report:?}");
}

/// Proves R15.
#[test]
fn last_copy_of_unrestored_content_is_not_removed() {
    let case = StoreFixture::new();
    case.write("p", "text");
    case.write("empty", "");
    let before = case.capture().capture;
    for (from, to) in [("p", "q"), ("empty", "still empty")] {
        fs_err::rename(case.at(from), case.at(to)).unwrap();
    }
    let after = case.capture().capture;
    case.write("p", "another");
    case.write("empty", "another");

    let report = apply(&case, &plan(&case, &undo_targets(&case, &before, &after)));

    let reasons: Vec<_> = report.conflicts.iter().map(|it| (it.path.to_string(), it.why)).collect();
    let wanted = [
        ("empty", ConflictReason::Recreated),
        ("p", ConflictReason::Recreated),
        ("q", ConflictReason::OnlyCopy),
    ];
    assert_eq!(reasons, wanted.map(|(name, why)| (name.to_owned(), why)));
    assert!(case.read("q") == "text" && !case.at("still empty").exists());
}

/// Proves R17.
#[test]
fn refused_exchange_of_file_and_directory_leaves_the_bits_of_directories() {
    let case = StoreFixture::new();
    case.write("p", "file");
    let before = case.capture().capture;
    case.remove("p");
    case.write("p/sub/f", "f");
    case.chmod("p/sub", 0o700);
    let after = case.capture().capture;
    let planned = plan(&case, &undo_targets(&case, &before, &after));
    assert_eq!(planned.steps.len(), 3, "{planned:?}");
    // It comes after the plan was made.
    case.write("p/foreign", "mine");

    let report = apply(&case, &planned);

    assert_eq!(report.conflicts.len(), 3, "{report:?}");
    assert_eq!((case.read("p/sub/f").as_str(), mode_of(&case, "p/sub")), ("f", 0o700));
}

/// Proves R1, R18.
#[test]
fn disk_differs_from_a_capture_as_the_next_capture_does() {
    let case = StoreFixture::new();
    for name in ["same/f", "gone/deep/f", "bits/f", "was-dir/f", "was-file"] {
        case.write(name, "text\n");
    }
    for name in ["bare", "bare-gone"] {
        fs_err::create_dir(case.at(name)).expect("made");
    }
    let before = case.capture().capture;
    fs_err::remove_dir_all(case.at("gone")).expect("removed");
    fs_err::remove_dir(case.at("bare-gone")).expect("removed");
    fs_err::remove_dir_all(case.at("was-dir")).expect("removed");
    fs_err::remove_file(case.at("was-file")).expect("removed");
    fs_err::create_dir_all(case.at("was-file/empty")).expect("made");
    case.write("was-dir", "a file\n");
    case.write("new/f", "new\n");
    case.chmod("bits", 0o700);
    case.chmod("bits/f", 0o600);

    let seen = case.store.diffs().list_worktree_changes(&before).expect("compared");

    let seen: Vec<_> = seen.into_iter().map(|found| found.change).collect();
    let after = case.capture().capture;
    assert_eq!(seen, case.store.captures().list_changes(&before, &after).expect("readable"));
    let paths: Vec<String> = seen.iter().map(|change| change.path.to_string()).collect();
    for name in ["bits", "bare-gone", "gone/deep", "new", "was-dir", "was-file", "was-file/empty"] {
        assert!(paths.iter().any(|path| path == name), "{name}: {paths:?}");
    }
}
