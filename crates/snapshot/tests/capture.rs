//! What a capture takes, how it reports the rest, and that git agrees.

#[expect(dead_code, reason = "shared by several test programs")]
#[cfg(test)]
mod support;

use std::os::unix::ffi::OsStrExt;

use support::{NOW, StoreFixture, count_skipped, path, paths_of};
use turnstone_snapshot::{
    CaptureCoverage, CaptureRules, CaptureScope, FileMode, PathImage, PinGroup, RelPath,
    UncoveredReason,
};

#[test]
fn captured_tree_id_equals_gits() {
    let case = StoreFixture::new();
    case.write("a.txt", "one\r\ntwo\r\n");
    case.write("a-b/x", "");
    case.write("a/x", "x");
    case.write("a.d/y", "y");
    case.write("run.sh", "#!/bin/sh\n");
    case.chmod("run.sh", 0o755);
    case.link("dangling", "nowhere/at all");
    case.link("loop", "loop");
    case.write_bytes(b"\xff\xfe", "not text");
    case.write_bytes("文件/файл.txt".as_bytes(), "u");
    case.write(":src*/-x \"q\"\t\n\\", "odd");
    case.write(&"n".repeat(255), "long");
    case.write("big.bin", vec![7_u8; 9_000_000]);
    fs_err::create_dir(case.at("empty")).unwrap();

    let captured = case.capture();

    assert_eq!(captured.capture.tree.to_string(), case.git_write_tree());
    assert_eq!(captured.files, 12);
    case.git(&["fsck", "--strict"]);
}

#[test]
fn tree_id_follows_every_change_like_git() {
    let case = StoreFixture::new();
    let check = |what: &str| {
        let captured = case.capture();
        assert_eq!(captured.capture.tree.to_string(), case.git_write_tree(), "{what}");
        captured
    };
    case.write("dir/file", "1");
    case.write("other", "2");
    check("new files");
    case.write("dir/file", "3");
    assert_eq!(check("same size, at once").changed, 1);
    case.chmod("other", 0o755);
    assert_eq!(check("may be run").changed, 1);
    case.remove("dir/file");
    fs_err::remove_dir(case.at("dir")).unwrap();
    case.write("dir", "a file now");
    assert_eq!(check("directory to file").changed, 2);
    case.remove("dir");
    case.link("dir", "other");
    check("file to link");
    case.remove("dir");
    case.write("dir/deep/er", "back");
    check("link to directory");
    fs_err::rename(case.at("other"), case.at("Other")).unwrap();
    check("case only");
    assert!(case.git(&["fsck"]).is_empty());
}

/// Proves R9.
#[test]
fn unchanged_worktree_returns_the_last_capture() {
    let mut case = StoreFixture::new();
    case.write("a", "1");
    let first = case.capture();

    let second = case.capture();
    case.reopen();
    let third = case.capture();

    assert!(first.is_new && !second.is_new && !third.is_new);
    assert_eq!(first.capture.id, second.capture.id);
    assert_eq!(first.capture.id, third.capture.id);
    assert_eq!(fs_err::read_dir(case.store.git_dir().join("objects/pack")).unwrap().count(), 2);
    assert_eq!(case.store.captures().get(&first.capture.id).unwrap().time, NOW);
}

#[test]
fn change_with_same_size_and_mtime_is_captured() {
    let mut case = StoreFixture::new();
    case.write("a", "1");
    let before = case.capture().capture.tree;
    let time = fs_err::metadata(case.at("a")).unwrap().modified().unwrap();
    case.write("a", "2");
    let file = fs_err::OpenOptions::new().write(true).open(case.at("a")).unwrap();
    file.file().set_modified(time).unwrap();
    case.reopen();

    assert_ne!(case.capture().capture.tree, before);
}

/// Proves R9.
#[test]
fn git_gc_prune_now_loses_nothing() {
    let mut case = StoreFixture::new();
    let groups = [PinGroup::new("one"), PinGroup::new("two")];
    let mut made = Vec::new();
    for round in 0..6 {
        case.write("a", format!("round {round}"));
        case.write(&format!("d{round}/b"), "b");
        made.push(case.store.capture(&groups[round % 2], NOW).unwrap());
    }
    case.git(&["gc", "-q", "--prune=now"]);
    case.git(&["fsck", "--connectivity-only"]);

    for reopened in [false, true] {
        if reopened {
            case.reopen();
        }
        for (round, captured) in made.iter().enumerate() {
            let capture = case.store.captures().get(&captured.capture.id).unwrap();
            assert_eq!(capture.coverage, captured.capture.coverage);
            let text = case.git(&["show", &format!("{}:a", capture.tree)]);
            assert_eq!(text, format!("round {round}"));
            assert_ne!(
                case.store.captures().path_image(&capture, &path("a")).unwrap(),
                PathImage::Absent
            );
        }
    }
    let chain = case.store.captures().list(&groups[1]).unwrap();
    assert_eq!(chain, [made[5].capture.id, made[3].capture.id, made[1].capture.id]);
    case.write("after", "gc");
    let after = case.store.capture(&groups[0], NOW).unwrap();
    assert_eq!(after.capture.tree.to_string(), case.git_write_tree());
}

#[test]
fn hundred_captures_in_one_process_are_readable() {
    let case = StoreFixture::new();
    let made: Vec<_> = (0..100)
        .map(|round| {
            case.write("a", format!("{round}"));
            case.capture().capture
        })
        .collect();

    for capture in &made {
        assert!(matches!(
            case.store.captures().path_image(capture, &path("a")),
            Ok(PathImage::Present { .. })
        ));
    }
}

#[test]
fn leftover_temp_files_are_removed_on_open() {
    let mut case = StoreFixture::new();
    case.write("a", "1");
    let kept = case.capture();
    let folder = case.store.git_dir().join("objects/pack");
    fs_err::write(folder.join("turnstone_tmp_0011.pack"), "half").unwrap();
    fs_err::write(folder.join("turnstone_tmp_pack-aa.index"), "index").unwrap();
    fs_err::write(folder.join("pack-aa.pack"), "named, not indexed").unwrap();
    fs_err::write(folder.join("pack-bb.pack"), "somebody else's, not finished").unwrap();

    case.reopen();

    let mut left: Vec<String> = fs_err::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!(left.iter().filter(|name| name.contains("bb")).count(), 1);
    assert!(case.store.captures().get(&kept.capture.id).is_ok());
}

/// Proves W44.
#[test]
fn partially_created_store_is_completed_on_open() {
    let dir = tempfile::tempdir().unwrap();
    fs_err::create_dir(dir.path().join("work")).unwrap();
    fs_err::create_dir_all(dir.path().join("store/git")).unwrap();
    fs_err::write(dir.path().join("store/git/HEAD"), "").unwrap();
    fs_err::write(dir.path().join("store/stat-cache"), "torn").unwrap();
    let mut case = StoreFixture::new();
    case.dir = dir;
    case.reopen();
    case.write("a", "1");

    assert_eq!(case.capture().capture.tree.to_string(), case.git_write_tree());
}

/// Proves R11.
#[test]
fn store_has_one_owner() {
    use turnstone_snapshot::{RootPolicy, SnapshotStore, StoreOpenError, Worktree};
    let case = StoreFixture::new();
    let worktree = || Worktree::open(&case.root(), &RootPolicy::default()).unwrap();
    let store = case.dir.path().join("store");

    let second = SnapshotStore::open(&store, worktree(), CaptureRules::default());

    assert!(matches!(second, Err(StoreOpenError::Locked(who)) if who.starts_with("process ")));
    let StoreFixture { store, dir, selection } = case;
    drop(store);
    let again = support::open_store(dir.path(), &selection);
    again.capture(&PinGroup::new("test"), NOW).unwrap();
}

/// Proves S8.
#[test]
fn store_directory_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let case = StoreFixture::new();
    let mode = fs_err::metadata(case.store.git_dir()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn ignored_files_are_skipped_and_listed_unless_tracked() {
    let case = StoreFixture::new_git_checkout();
    case.write(".gitignore", "*.log\n/out/\n!keep.log\n");
    case.write("sub/.gitignore", "local\n");
    for name in ["a.log", "keep.log", "out/x", "sub/local", "sub/a.log", "local", "out/tracked"] {
        case.write(name, name);
    }
    case.write(".git/info/exclude", "excluded\n");
    case.write("excluded", "e");
    case.git_in(&case.root(), &["add", "-f", "out/tracked", "sub/a.log"]);

    let captured = case.capture();

    let kept = [".gitignore", "keep.log", "local", "out/tracked", "sub/.gitignore", "sub/a.log"];
    assert_eq!(case.tree_paths(&captured), kept);
    let coverage = &captured.capture.coverage;
    let names: Vec<String> = coverage.skipped.iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(names, ["a.log", "excluded", "out/x", "sub/local"]);
    assert_eq!(count_skipped(&captured, UncoveredReason::Ignored), 4);
}

/// Proves W44.
#[test]
fn every_repository_layout_is_captured() {
    let setups: [&[&[&str]]; 3] = [
        &[&["init", "-q", "--object-format=sha256"]],
        &[&["init", "-q"], &["add", "."], &["update-index", "--split-index"]],
        &[
            &["init", "-q"],
            &["add", "."],
            &["commit", "-qm", "x"],
            &["config", "core.autocrlf", "true"],
        ],
    ];
    for setup in setups {
        let case = StoreFixture::new();
        case.write("a", "one\r\n");
        case.write(".gitattributes", "* text eol=lf filter=nothing\n");
        for args in setup {
            case.git_in(&case.root(), args);
        }
        fs_err::write(case.at(".git/index.lock"), "stale").unwrap();
        case.write("b", "untracked");

        let captured = case.capture();

        assert_eq!(case.tree_paths(&captured), [".gitattributes", "a", "b"], "{setup:?}");
        let show = format!("{}:a", captured.capture.tree);
        assert!(case.git(&["cat-file", "-s", &show]) == "5", "raw bytes, no filter (W41, W42)");
    }
}

#[test]
fn the_users_excludes_file_applies_in_repositories() {
    let user_excludes = b"*.swp\n".to_vec();
    let case =
        StoreFixture::with_selection(CaptureRules { user_excludes, ..CaptureRules::default() });
    case.git_in(&case.root(), &["init", "-q"]);
    case.write("a.swp", "s");
    case.write("a", "a");

    assert_eq!(case.tree_paths(&case.capture()), ["a"]);
}

/// Proves R7.
#[test]
fn nested_repository_is_captured_by_its_own_rules() {
    let case = StoreFixture::new_git_checkout();
    case.write(".gitignore", "*.tmp\nvendor/\n");
    for folder in ["nested", "vendor/lib"] {
        fs_err::create_dir_all(case.at(folder)).unwrap();
        case.git_in(&case.at(folder), &["init", "-q"]);
        case.write(&format!("{folder}/.gitignore"), "own\n");
        case.write(&format!("{folder}/own"), "o");
        case.write(&format!("{folder}/x.tmp"), "kept here");
    }
    case.write("x.tmp", "not here");

    let captured = case.capture();

    // `vendor` is ignored and no repository, so what it holds stays hidden with it.
    assert_eq!(case.tree_paths(&captured), [".gitignore", "nested/.gitignore", "nested/x.tmp"]);
    assert_eq!(captured.capture.coverage.nested, [path("nested")]);

    case.write(".gitignore", "*.tmp\n/vendor/lib\n");
    let captured = case.capture();
    assert!(case.tree_paths(&captured).contains(&"vendor/lib/x.tmp".to_owned()));
    assert_eq!(captured.capture.coverage.nested, [path("nested"), path("vendor/lib")]);
    case.git(&["fsck"]);
}

#[test]
fn a_linked_worktree_uses_the_shared_excludes() {
    let case = StoreFixture::new();
    let main = case.dir.path().join("main");
    fs_err::create_dir(&main).unwrap();
    case.git_in(&main, &["init", "-q"]);
    case.git_in(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
    fs_err::remove_dir(case.root()).unwrap();
    case.git_in(&main, &["worktree", "add", "-q", "../work"]);
    fs_err::write(main.join(".git/info/exclude"), "hidden\n").unwrap();
    let mut case = case;
    case.reopen();
    case.write("hidden", "h");
    case.write("seen", "s");

    assert_eq!(case.tree_paths(&case.capture()), ["seen"]);
}

/// Proves R7.
#[test]
fn generated_directories_are_skipped_only_outside_repositories() {
    let case = StoreFixture::new();
    case.write("node_modules/m/index.js", "m");
    case.write("src/target/x", "x");
    case.write("a", "a");
    let captured = case.capture();
    assert_eq!(case.tree_paths(&captured), ["a"]);
    assert_eq!(count_skipped(&captured, UncoveredReason::Generated), 2);

    case.git_in(&case.root(), &["init", "-q"]);
    assert_eq!(case.tree_paths(&case.capture()).len(), 3);
}

/// Proves W43.
#[test]
fn unreadable_path_does_not_fail_the_capture() {
    let case = StoreFixture::with_selection(CaptureRules {
        max_file_bytes: 10,
        ..CaptureRules::default()
    });
    case.write("good", "g");
    case.write("large", "more than ten bytes");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        case.at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    case.write_bytes(b"caf\xe9", "x");
    fs_err::create_dir(case.at("no-commit")).unwrap();
    case.git_in(&case.at("no-commit"), &["init", "-q"]);
    case.write("no-commit/f", "f");

    let captured = case.capture();

    assert_eq!(captured.files, 3);
    let skipped = &captured.capture.coverage.skipped;
    assert_eq!(
        skipped,
        &[(path("large"), UncoveredReason::TooLarge), (path("pipe"), UncoveredReason::Special)]
    );
}

/// Proves R1.
#[test]
fn path_that_becomes_ignored_is_uncovered_not_deleted() {
    let case = StoreFixture::new_git_checkout();
    case.write("secret", "s");
    case.write("gone", "g");
    let before = case.capture().capture;
    case.write(".gitignore", "secret\n");
    case.remove("gone");
    let after = case.capture().capture;

    let image = |capture, name| case.store.captures().path_image(capture, &path(name)).unwrap();
    assert!(matches!(image(&before, "secret"), PathImage::Present { .. }));
    assert_eq!(image(&after, "secret"), PathImage::Uncovered { reason: UncoveredReason::Ignored });
    assert_eq!(image(&after, "gone"), PathImage::Absent);
    let diff = case.store.diffs().between(&before, &after, &Default::default()).unwrap();
    let names: Vec<String> = diff.files.iter().map(|file| file.path.to_string()).collect();
    assert_eq!(names, [".gitignore", "gone"]);
    assert_eq!(diff.not_covered, [(path("secret"), UncoveredReason::Ignored)]);
}

/// Proves R1, R6.
#[test]
fn named_paths_bypass_rules_and_stay_selected() {
    let mut case = StoreFixture::new_git_checkout();
    case.write(".gitignore", "build/\n");
    case.write("build/out", "o");
    case.write("build/other", "x");
    case.write("a", "a");
    let group = PinGroup::new("test");
    let paths = paths_of(&["build/out", "nowhere/at/all", "a"]);

    let named = case.store.capture_named(&group, &paths, true, NOW).unwrap().capture;

    assert_eq!(named.coverage.scope, CaptureScope::Named);
    let image = |name| case.store.captures().path_image(&named, &path(name)).unwrap();
    assert!(matches!(image("build/out"), PathImage::Present { .. }));
    assert_eq!(image("nowhere/at/all"), PathImage::Absent);
    assert_eq!(image(".gitignore"), PathImage::Uncovered { reason: UncoveredReason::NotNamed });
    case.reopen();
    let whole = case.capture();
    assert_eq!(case.tree_paths(&whole), [".gitignore", "a", "build/out"]);
    case.remove("build/out");
    let whole = case.capture().capture;
    assert_eq!(
        case.store.captures().path_image(&whole, &path("build/out")).unwrap(),
        PathImage::Absent
    );
    let other = case.store.captures().path_image(&whole, &path("build/other")).unwrap();
    assert_eq!(other, PathImage::Uncovered { reason: UncoveredReason::Ignored });
}

/// Proves S2.
#[test]
fn capture_follows_no_links() {
    let case = StoreFixture::new();
    let outside = tempfile::tempdir().unwrap();
    fs_err::write(outside.path().join("secret"), "s").unwrap();
    case.link("out", outside.path().to_str().unwrap());

    let named = case.capture_named(&["out/secret"]).capture;
    let image = case.store.captures().path_image(&named, &path("out/secret")).unwrap();
    assert_eq!(image, PathImage::Uncovered { reason: UncoveredReason::BehindLink });
    let whole = case.capture();
    assert_eq!(case.tree_paths(&whole), ["out"]);
}

#[test]
fn store_inside_the_worktree_is_not_captured() {
    let mut case = StoreFixture::new();
    case.selection.own_data = Some(path("data"));
    case.reopen();
    case.write("data/x", "d");
    case.write("a", "a");

    assert_eq!(case.tree_paths(&case.capture()), ["a"]);
}

/// Proves R18.
#[test]
fn permission_bits_and_modes_are_captured() {
    let case = StoreFixture::new();
    for (name, perm) in [("a", 0o644), ("b", 0o644), ("secret", 0o600), ("run", 0o711)] {
        case.write(name, name);
        case.chmod(name, perm);
    }
    let capture = case.capture().capture;
    let image = |name| case.store.captures().path_image(&capture, &path(name)).unwrap();

    for (name, bits, kind) in [
        ("a", 0o644, FileMode::File),
        ("secret", 0o600, FileMode::File),
        ("run", 0o711, FileMode::Exec),
    ] {
        let PathImage::Present { leaf, perm } = image(name) else { panic!("{name} is there") };
        assert_eq!((perm, leaf.mode), (bits, kind), "{name}");
    }
    let read: CaptureCoverage = (*case.store.captures().get(&capture.id).unwrap().coverage).clone();
    assert_eq!(read, *capture.coverage);
}

#[test]
fn failed_capture_returns_error_not_an_old_id() {
    let case = StoreFixture::new();
    case.write("a", "1");
    case.capture();
    fs_err::rename(case.root(), case.dir.path().join("moved")).unwrap();

    assert!(case.store.capture(&PinGroup::new("test"), NOW).is_err());
    let unknown = "0123456789012345678901234567890123456789".parse().unwrap();
    assert!(case.store.captures().get(&unknown).is_err());
}

#[test]
fn files_changing_during_read_do_not_fail_the_capture() {
    let case = StoreFixture::new();
    for index in 0..50 {
        case.write(&format!("f{index}"), "start");
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                round += 1;
                case.write(&format!("f{}", round % 50), "x".repeat(round % 4000));
                fs_err::remove_file(case.at(&format!("f{}", (round * 7) % 50))).ok();
            }
        });
        for _ in 0..20 {
            case.capture();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(case.capture().capture.tree.to_string(), case.git_write_tree());
    case.git(&["fsck"]);
}

/// Proves R6.
#[test]
fn named_capture_needs_no_baseline_and_keeps_non_utf8_names() {
    let case = StoreFixture::new();
    case.write_bytes(b"\xff", "x");
    let paths = [RelPath::new(&b"\xff"[..]).unwrap()].into();
    let captured = case.store.capture_named(&PinGroup::new("g"), &paths, true, NOW).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\xff");

    assert_eq!(captured.files, 1);
    assert!(case.root().join(name).exists());
    let again = case.store.capture_named(&PinGroup::new("g"), &paths, true, NOW).unwrap();
    assert!(!again.is_new);
}
