//! What is captured and listed, and what is not.

use turnstone_snapshot::{CaptureRules, DiffOptions, UncoveredReason};

use crate::fixture::{bootstrap, diff, patch, paths, track};
use crate::support::{StoreFixture, path};

/// 8.1.5, 21, 37.
#[test]
fn empty_directories_and_reverted_mode_changes_are_no_change() {
    let case = bootstrap();
    case.chmod("a.txt", 0o644);
    let before = track(&case.store);
    fs_err::create_dir(case.at("empty")).unwrap();
    for perm in [0o600, 0o755, 0o644] {
        case.chmod("a.txt", perm);
    }

    assert!(patch(&case, &before).is_empty());
    assert_eq!(track(&case.store).tree, before.tree, "what a client sees of a capture");
}

/// 8.1.7, 20, 22.
#[test]
fn links_including_self_links_are_listed_as_links() {
    let case = bootstrap();
    let before = track(&case.store);
    case.link("link.txt", "a.txt");
    case.write("sub/dir/file", "f");
    case.link("sub/to-file", "dir/file");
    case.link("sub/to-dir", "dir");
    case.link("self", "self");

    let listed = patch(&case, &before);

    assert_eq!(listed, ["link.txt", "self", "sub/dir/file", "sub/to-dir", "sub/to-file"]);
}

/// 8.1.9 differs: 2 MiB are captured; what passes the limit is named, and is no deletion.
#[test]
fn large_files_are_captured_and_oversized_files_are_listed() {
    let selection = CaptureRules { max_file_bytes: 3 << 20, ..CaptureRules::default() };
    let case = StoreFixture::with_selection(selection);
    let before = track(&case.store);
    case.write("large", vec![b'x'; (2 << 20) + 1]);
    assert_eq!(patch(&case, &before), ["large"]);
    let with_large = track(&case.store);
    case.write("large", vec![b'x'; (3 << 20) + 1]);

    let diff = diff(&case, &with_large);

    assert!(diff.files.is_empty());
    assert_eq!(diff.not_covered, [(path("large"), UncoveredReason::TooLarge)]);
    assert!(CaptureRules::default().max_file_bytes >= 50_000_000);
}

/// 8.1.23.
#[test]
fn ignored_files_are_not_listed() {
    let case = bootstrap();
    case.write(".gitignore", "*.log\nbuild/\n");
    case.write("build/old", "1");
    let before = track(&case.store);
    case.write("new.txt", "n");
    case.write("a.txt", "changed");
    case.write("x.log", "l");
    case.write("build/old", "2");
    case.write("build/new", "3");

    assert_eq!(patch(&case, &before), ["a.txt", "new.txt"]);
}

/// 8.1.24, 25, 26, 8.2, W47: a scope is a name, never a pattern.
#[test]
fn directories_with_unusual_names_are_listed() {
    for name in ["sub", "src*", ":src", ":(top)x", "-d"] {
        let case = bootstrap();
        for file in ["kept", "gone", "ignored-later"] {
            case.write(&format!("{name}/{file}"), "1\n");
        }
        case.write("srca/sibling", "1\n");
        let before = track(&case.store);
        case.write(&format!("{name}/kept"), "2\n");
        case.remove(&format!("{name}/gone"));
        case.write(&format!("{name}/new"), "n\n");
        case.write(&format!("{name}/ignored-later"), "2\n");
        case.write("srca/sibling", "2\n");
        case.write(".gitignore", "ignored-later\n");
        let options = DiffOptions { scope: Some(path(name)), ..DiffOptions::default() };

        let disk = case.store.diffs().with_worktree(&before, &options).unwrap();
        let after = track(&case.store);
        let between = case.store.diffs().between(&before, &after, &options).unwrap();

        let listed = ["gone", "kept", "new"].map(|file| format!("{name}/{file}"));
        assert_eq!(paths(&disk), listed);
        assert_eq!(paths(&between), listed);
        assert!(!String::from_utf8_lossy(&disk.patch()).contains("srca"));
        let uncovered = (path(&format!("{name}/ignored-later")), UncoveredReason::Ignored);
        assert_eq!(disk.not_covered, [uncovered]);
    }
}

/// 8.1.27, 28, 29: a file that is ignored by now is neither listed nor a deletion.
#[test]
fn newly_ignored_file_is_uncovered() {
    let case = bootstrap();
    case.write("secret", "1");
    let before = track(&case.store);
    case.write(".gitignore", "secret\n*.tmp\n");
    case.write("secret", "2");
    case.write("new.txt", "n");
    case.write("x.tmp", "t");
    case.write("a.txt", "changed");

    let disk = diff(&case, &before);
    let after = track(&case.store);
    let between = case.store.diffs().between(&before, &after, &DiffOptions::default()).unwrap();

    for diff in [disk, between] {
        assert_eq!(paths(&diff), [".gitignore", "a.txt", "new.txt"]);
        assert_eq!(diff.not_covered, [(path("secret"), UncoveredReason::Ignored)]);
    }
}

/// 8.1.30, 31.
#[test]
fn repository_and_user_excludes_both_apply() {
    let selection = CaptureRules { user_excludes: b"*.user\n".to_vec(), ..CaptureRules::default() };
    let case = StoreFixture::with_selection(selection);
    case.git_in(&case.root(), &["init", "-q"]);
    let before = track(&case.store);
    case.write(".git/info/exclude", "hidden\n");
    for name in ["hidden", "x.user", "seen"] {
        case.write(name, "1");
    }

    assert_eq!(patch(&case, &before), ["seen"]);
    let after = track(&case.store);
    let between = case.store.diffs().between(&before, &after, &DiffOptions::default()).unwrap();
    assert_eq!(paths(&between), ["seen"]);
}

/// 8.1.32.
#[test]
fn concurrent_writes_do_not_fail_a_diff() {
    let case = bootstrap();
    let before = track(&case.store);
    let root = case.root();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for round in 0..300 {
                let at = root.join(format!("c{}", round % 7));
                match round % 3 {
                    0 => drop(fs_err::remove_file(at)),
                    _ => fs_err::write(at, format!("{round}").repeat(round)).unwrap(),
                }
            }
        });
        while !writer.is_finished() {
            diff(&case, &before);
            track(&case.store);
        }
    });
    assert!(diff(&case, &track(&case.store)).files.is_empty());
}

/// 8.2 differs: a directory outside of git is captured like any other.
#[test]
fn directory_outside_git_is_captured() {
    let case = StoreFixture::in_memory();
    let before = track(&case.store);
    case.write("a", "1");

    assert_eq!(patch(&case, &before), ["a"]);
}

/// W52: many files make one pack and no loose object.
#[test]
fn first_capture_writes_one_pack() {
    let case = bootstrap();
    for index in 0..300 {
        case.write(&format!("d{}/f{index}", index % 9), format!("{index}"));
    }

    track(&case.store);

    let objects = case.store.git_dir().join("objects");
    let names = |folder: &std::path::Path| -> Vec<String> {
        let entries = fs_err::read_dir(folder).unwrap();
        entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect()
    };
    let packs = names(&objects.join("pack"));
    assert_eq!(packs.iter().filter(|name| name.ends_with(".pack")).count(), 1);
    assert!(names(&objects).iter().all(|name| name.len() > 2), "no loose object");
}
