//! Kinds of indexes: every form git writes is read, and one that cannot be read is not an empty one.

use std::path::Path;

use turnstone_snapshot::{CaptureRules, PathImage, UncoveredReason, UserGitSettings};

use crate::support::{StoreFixture, count_skipped, path};

const TRACKED: [&str; 6] = [".gitignore", "a.log", "d/e.log", "d/f/g.log", "later.log", "z.log"];

/// Tracked files that a rule hides, and some that are hidden for good.
fn checkout_with_ignored_tracked_files() -> StoreFixture {
    let selection =
        CaptureRules { user_git: Some(UserGitSettings::default()), ..CaptureRules::default() };
    let case = StoreFixture::with_selection(selection);
    case.git_in(&case.root(), &["init", "-q"]);
    case.write(".gitignore", "*.log\n");
    for name in ["a.log", "d/e.log", "d/f/g.log", "gone.log", "z.log"] {
        case.write(name, format!("{name}\n"));
    }
    case.git_in(&case.root(), &["add", "-f", "."]);
    case.git_in(&case.root(), &["commit", "-q", "-m", "x"]);
    for name in ["never.log", "d/never.log"] {
        case.write(name, "n");
    }
    case
}

/// Changes the index after it got its form: one file more, one less, one written again.
fn modify_index(case: &StoreFixture) {
    case.write("later.log", "l");
    case.write("d/e.log", "changed");
    let git = |args: &[&str]| case.git_in(&case.root(), args);
    git(&["add", "-f", "later.log", "d/e.log"]);
    git(&["rm", "-q", "--cached", "gone.log"]);
}

#[test]
fn every_index_version_is_read() {
    for version in ["2", "4"] {
        let case = checkout_with_ignored_tracked_files();
        case.git_in(&case.root(), &["update-index", "--index-version", version]);
        modify_index(&case);
        assert_eq!(case.tree_paths(&case.capture()), TRACKED, "version {version}");
    }
    let case = checkout_with_ignored_tracked_files();
    modify_index(&case);
    case.write("wish.log", "w");
    case.git_in(&case.root(), &["add", "-f", "-N", "wish.log"]);
    assert_eq!(fs_err::read(case.at(".git/index")).unwrap()[7], 3);
    assert!(case.tree_paths(&case.capture()).contains(&"wish.log".to_owned()));
}

#[test]
fn split_index_is_read_with_its_shared_half() {
    let case = checkout_with_ignored_tracked_files();
    case.git_in(&case.root(), &["config", "splitIndex.maxPercentChange", "100"]);
    case.git_in(&case.root(), &["update-index", "--split-index"]);
    modify_index(&case);
    let files = fs_err::read_dir(case.at(".git")).unwrap();
    let mut names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.any(|name| name.starts_with("sharedindex.")));

    assert_eq!(case.tree_paths(&case.capture()), TRACKED);
}

#[test]
fn split_index_without_shared_half_is_unreadable_not_empty() {
    let case = checkout_with_ignored_tracked_files();
    case.git_in(&case.root(), &["update-index", "--split-index"]);
    for entry in fs_err::read_dir(case.at(".git")).unwrap() {
        let file = entry.unwrap().path();
        if file.to_str().unwrap().contains("sharedindex.") {
            fs_err::remove_file(file).unwrap();
        }
    }
    assert_ignored_files_unknown(&case);
}

#[test]
fn sparse_index_keeps_tracked_files_captured() {
    let case = checkout_with_ignored_tracked_files();
    let git = |args: &[&str]| case.git_in(&case.root(), args);
    case.write("in/x", "x");
    git(&["add", "in"]);
    git(&["commit", "-q", "-m", "y"]);
    git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    // Back on disk without git knowing: still listed, as part of its directory.
    case.write("d/f/g.log", "back");

    let found = case.tree_paths(&case.capture());

    for name in ["a.log", "d/f/g.log", "in/x"] {
        assert!(found.contains(&name.to_owned()), "{name} of {found:?}");
    }
    assert!(!found.contains(&"never.log".to_owned()));
}

#[test]
fn index_extensions_are_skipped_and_no_hook_runs() {
    let case = checkout_with_ignored_tracked_files();
    let git = |args: &[&str]| case.git_in(&case.root(), args);
    let hook = case.dir.path().join("hook");
    let ran = case.dir.path().join("ran");
    fs_err::write(&hook, format!("#!/bin/sh\ntouch '{}'\nprintf '/\\0'\n", ran.display())).unwrap();
    fs_err::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    git(&["config", "core.fsmonitor", hook.to_str().unwrap()]);
    git(&["config", "core.hooksPath", case.dir.path().to_str().unwrap()]);
    git(&["update-index", "--force-untracked-cache", "--fsmonitor"]);
    modify_index(&case);
    git(&["status"]);
    let index = fs_err::read(case.at(".git/index")).unwrap();
    let has = |name: &[u8]| index.windows(4).any(|window| window == name);
    assert!(has(b"FSMN") && has(b"UNTR"));
    fs_err::remove_file(&ran).unwrap();

    assert_eq!(case.tree_paths(&case.capture()), TRACKED);
    assert!(!ran.exists());
}

/// Nothing that is hidden counts as ignored, deleted or absent; the rest is captured.
fn assert_ignored_files_unknown(case: &StoreFixture) {
    case.write("plain", "p");
    let captured = case.capture();
    assert_eq!(case.tree_paths(&captured), [".gitignore", "plain"]);
    for name in ["a.log", "d/e.log", "never.log"] {
        let image = case.store.captures().path_image(&captured.capture, &path(name)).unwrap();
        let reason = UncoveredReason::IndexUnreadable;
        assert!(
            matches!(image, PathImage::Uncovered { reason: found } if found == reason),
            "{name}"
        );
    }
    assert_eq!(count_skipped(&captured, UncoveredReason::Ignored), 0);
    assert_eq!(captured.reused, 0);
}

#[test]
fn damaged_index_is_reported_as_unreadable() {
    let damages: [fn(&Path); 4] = [
        |index| {
            let mut bytes = fs_err::read(index).unwrap();
            bytes[80] ^= 1;
            fs_err::write(index, bytes).unwrap();
        },
        |index| {
            let bytes = fs_err::read(index).unwrap();
            fs_err::write(index, &bytes[..bytes.len() / 2]).unwrap();
        },
        |index| fs_err::write(index, "").unwrap(),
        // Opening a pipe would wait indefinitely.
        |index| {
            fs_err::remove_file(index).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, index, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        },
    ];
    for damage in damages {
        let case = checkout_with_ignored_tracked_files();
        damage(&case.at(".git/index"));
        assert_ignored_files_unknown(&case);
    }
}

/// Proves R1.
#[test]
fn broken_index_does_not_make_captured_paths_deleted() {
    let case = checkout_with_ignored_tracked_files();
    let before = case.capture().capture;
    fs_err::write(case.at(".git/index"), "broken").unwrap();
    let after = case.capture().capture;

    let plan = case.store.planner().plan_restore(&before, &after, None, false).unwrap();

    assert!(plan.steps.is_empty(), "{plan:?}");
}
