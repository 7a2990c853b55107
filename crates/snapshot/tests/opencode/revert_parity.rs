//! Undo: exactly what was done, whatever the names, and nothing else.

use turnstone_snapshot::{
    CaptureRules, DiffOptions, DiffStatus, PathImage, PinGroup, SnapshotStore, TargetState,
};
use turnstone_testkit::fixture::SeededRng;

use crate::fixture::{
    bootstrap, contents, patch, paths, revert, target_states, track, undo_changes,
};
use crate::support::{NOW, StoreFixture, path, paths_of};

/// 8.1.2, 3, 6, 8, 10, 11, 15, 17, 18, 19; W45: the directories that came with them go as well.
#[test]
fn created_files_are_listed_and_removed_with_empty_directories() {
    let long = format!("{}.txt", "a".repeat(200));
    let names = [
        "new.txt",
        "sub/file",
        "one/two/three/deep.txt",
        "with space.txt",
        "with-dash_under.txt",
        "文件.txt",
        "🚀.txt",
        "café.txt",
        "файл.txt",
        "目录/подпапка/文.txt",
        &long,
        ".hidden",
        ".gitignore",
        ".config",
        "bin",
    ];
    let case = bootstrap();
    let before = track(&case.store);
    let start = contents(&case.root());
    for name in names {
        case.write(name, if name == "bin" { vec![0, 1, 2, 255] } else { vec![b'x'; 1 << 12] });
    }
    case.write("mebi", vec![b'm'; 1 << 20]);

    let listed = patch(&case, &before);
    let report = revert(&case.store, &before);

    assert_eq!(listed.len(), names.len() + 1);
    assert!(names.iter().all(|name| listed.iter().any(|it| it == name)), "{listed:?}");
    assert_eq!(report.removed.len(), names.len() + 1);
    assert_eq!(contents(&case.root()), start);
}

/// 8.1.1, 4, 38.
#[test]
fn deletion_creation_and_modification_are_undone_together() {
    let case = bootstrap();
    let before = track(&case.store);
    let start = contents(&case.root());
    case.remove("a.txt");
    assert_eq!(patch(&case, &before), ["a.txt"]);
    case.write("new.txt", "new");
    case.write("dir/inside.txt", "in");
    case.write("b.txt", "modified");
    let text = crate::fixture::diff(&case, &before).patch();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(["a.txt", "b.txt", "new.txt"].iter().all(|name| text.contains(name)));

    revert(&case.store, &before);

    assert_eq!(contents(&case.root()), start);
}

/// 8.1.16, W36: OpenCode deletes these files instead of restoring them, and skips its test.
/// Proves W38.
#[test]
fn modified_files_with_unusual_names_are_restored() {
    use std::os::unix::ffi::OsStrExt;
    let names: [&[u8]; 8] = [
        "文件.txt".as_bytes(),
        "файл.txt".as_bytes(),
        b"q\"uote",
        b"back\\slash",
        b"t\tab",
        b"new\nline",
        b"\xff\xfe",
        b"plain.txt",
    ];
    let case = bootstrap();
    for name in names {
        case.write_bytes(name, [b"original ", name].concat());
    }
    let before = track(&case.store);
    for name in names {
        case.write_bytes(name, "changed");
    }

    let report = revert(&case.store, &before);

    assert_eq!(report.restored.len(), names.len());
    for name in names {
        let at = case.root().join(std::ffi::OsStr::from_bytes(name));
        assert_eq!(fs_err::read(at).unwrap(), [b"original ", name].concat());
    }
}

/// 8.1.12, 14: nothing to do is no failure.
#[test]
fn revert_of_nothing_or_unknown_paths_is_a_no_op() {
    let case = bootstrap();
    let start = contents(&case.root());
    let report = case
        .store
        .restores()
        .apply_plan(&case.store.planner().plan_targets(&[]).unwrap(), &PinGroup::new("guard"), NOW)
        .unwrap();
    assert_eq!(report, turnstone_snapshot::RestoreReport::default());
    let nowhere = TargetState::new(path("no/where"), Some(PathImage::Absent), PathImage::Absent);

    let plan = case.store.planner().plan_targets(&[nowhere]).unwrap();

    assert_eq!((plan.steps.len(), plan.unchanged.len()), (0, 1));
    assert_eq!(contents(&case.root()), start);
}

/// 8.1.40, 41.
#[test]
fn deleted_and_recreated_file_is_restored_to_the_snapshot() {
    let case = bootstrap();
    let first = track(&case.store);
    case.remove("a.txt");
    let second = track(&case.store);
    case.write("a.txt", "again");
    case.write("other", "o");
    assert_eq!(patch(&case, &second), ["a.txt", "other"]);

    revert(&case.store, &second);
    assert!(!case.at("a.txt").exists());

    case.write("a.txt", "again");
    case.write("other", "o");
    revert(&case.store, &first);
    assert_eq!(case.read("a.txt"), "A content");
    assert!(!case.at("other").exists());
}

/// 8.1.54, 55: OpenCode keeps the first hash of a path; undoing newest first ends there too.
#[test]
fn successive_changes_of_a_path_are_undone_newest_first() {
    let case = bootstrap();
    let mut points = vec![track(&case.store)];
    let mut worlds = vec![contents(&case.root())];
    case.write("p", "file");
    points.push(track(&case.store));
    worlds.push(contents(&case.root()));
    case.remove("p");
    case.write("p/inside", "directory");
    points.push(track(&case.store));
    worlds.push(contents(&case.root()));
    fs_err::remove_dir_all(case.at("p")).unwrap();
    case.write("p", "file again");
    case.write("a.txt", "changed");
    points.push(track(&case.store));
    worlds.push(contents(&case.root()));

    for index in (0..3).rev() {
        let report = undo_changes(&case.store, &points[index], &points[index + 1]);
        assert!(report.conflicts.is_empty(), "{report:?}");
        assert_eq!(contents(&case.root()), worlds[index], "point {index}");
    }
}

/// 8.1.56.
#[test]
fn revert_handles_102_files() {
    let case = bootstrap();
    for index in 0..101 {
        case.write(&format!("f{index}"), "old");
    }
    let before = track(&case.store);
    let start = contents(&case.root());
    for index in 0..101 {
        case.write(&format!("f{index}"), "new");
    }
    case.write("added", "a");
    assert_eq!(patch(&case, &before).len(), 102);

    revert(&case.store, &before);

    assert_eq!(contents(&case.root()), start);
}

/// W37: OpenCode lists the new name only, and the content is lost.
#[test]
fn moved_file_is_restored_to_its_old_name() {
    let case = bootstrap();
    let before = track(&case.store);
    let start = contents(&case.root());
    fs_err::create_dir(case.at("moved")).unwrap();
    fs_err::rename(case.at("a.txt"), case.at("moved/a.txt")).unwrap();

    revert(&case.store, &before);

    assert_eq!(contents(&case.root()), start);
}

/// 8.1.39, 8.2: with `keep_added` a restore leaves new files, as OpenCode's does.
#[test]
fn restore_with_keep_added_restores_only_other_files() {
    let case = bootstrap();
    let target = track(&case.store);
    case.remove("a.txt");
    case.write("b.txt", "modified");
    case.write("new.txt", "stays");
    let now = track(&case.store);
    let plan = case.store.planner().plan_restore(&target, &now, None, true).unwrap();

    case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).unwrap();

    let texts = ["a.txt", "b.txt", "new.txt"].map(|name| case.read(name));
    assert_eq!(texts, ["A content", "B content", "stays"]);
}

/// W39, 8.2: an undo in a directory changes nothing next to it.
#[test]
fn restoring_a_directory_leaves_siblings_alone() {
    let case = bootstrap();
    case.write("front/f", "1");
    case.write("back/b", "1");
    let target = track(&case.store);
    case.write("front/f", "2");
    case.write("back/b", "edited by hand");
    let now = track(&case.store);
    let front = paths_of(&["front"]);
    let plan = case.store.planner().plan_restore(&target, &now, Some(&front), false).unwrap();
    assert_eq!(plan.steps.len(), 1);

    case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).unwrap();

    assert_eq!((case.read("front/f"), case.read("back/b")), ("1".into(), "edited by hand".into()));
}

/// W41, W42: what the repository's filters and line ends would make of a file is not what it is.
#[test]
fn filtered_and_eol_converted_files_restore_byte_for_byte() {
    let case = bootstrap();
    let git = |args: &[&str]| case.git_in(&case.root(), args);
    case.write(".gitattributes", "*.secret filter=rot\n*.txt text eol=lf\n*.id ident\n");
    case.write("s.secret", "secret");
    case.write("crlf.txt", "one\r\ntwo\r\n");
    case.write("x.id", "$Id$\n");
    git(&["config", "core.autocrlf", "true"]);
    git(&["config", "filter.rot.clean", "tr a-z n-za-m"]);
    git(&["config", "filter.rot.smudge", "tr a-z n-za-m"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "filtered"]);
    let start = contents(&case.root());
    let before = track(&case.store);
    for name in ["s.secret", "crlf.txt", "x.id"] {
        case.write(name, "changed");
    }

    revert(&case.store, &before);

    assert_eq!(contents(&case.root()), start);
}

/// 8.1.33, 34, 35, 36, 8.2, W49: each worktree has its own store and sees its own files.
#[test]
fn linked_worktrees_and_projects_are_isolated() {
    let case = bootstrap();
    let git = |args: &[&str]| case.git_in(&case.root(), args);
    git(&["commit", "-q", "--allow-empty", "-m", "root"]);
    let linked = case.dir.path().join("linked");
    git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    let worktree = turnstone_snapshot::Worktree::open(&linked, &Default::default()).unwrap();
    let store = case.dir.path().join("store of the linked one");
    let other = SnapshotStore::open(&store, worktree, CaptureRules::default()).unwrap();
    let (here, there) = (track(&case.store), track(&other));
    case.write("shared.txt", "primary");
    case.write("only-here.txt", "p");
    fs_err::write(linked.join("shared.txt"), "linked").unwrap();

    let diff = other.diffs().with_worktree(&there, &DiffOptions::default()).unwrap();
    assert_eq!(paths(&diff), ["shared.txt"]);
    assert_eq!(patch(&case, &here), ["only-here.txt", "shared.txt"]);
    revert(&other, &there);

    assert!(!linked.join("shared.txt").exists());
    assert_eq!(case.read("shared.txt"), "primary");
    assert_ne!(case.store.git_dir(), other.git_dir());
}

/// W46: two actors edit at the same time; undoing what one did changes no path it did not touch,
/// keeps the other's edits of the same file, and says what it could not do.
#[test]
fn undoing_one_actor_never_alters_other_paths() {
    let mut merged = 0;
    let mut conflicts = 0;
    for seed in 0..40 {
        let mut rng = SeededRng::new(seed);
        let case = StoreFixture::in_memory();
        let body = |tag: &str| -> Vec<String> { (0..12).map(|n| format!("{tag} {n}\n")).collect() };
        let names: Vec<String> = (0..8).map(|n| format!("d{}/f{n}", n % 3)).collect();
        for name in &names {
            case.write(name, body(name).concat());
        }
        let mut own: Vec<TargetState> = Vec::new();
        for _ in 0..rng.in_range(2..=10) {
            let name = rng.choose(&names).unwrap().clone();
            let is_agent = rng.below(2) == 0;
            let before = case.capture_named(&[&name]).capture;
            edit(&case, &name, &mut rng, if is_agent { "agent" } else { "human" });
            let after = case.capture_named(&[&name]).capture;
            let image = |capture| case.store.captures().path_image(capture, &path(&name)).unwrap();
            if is_agent && image(&before) != image(&after) {
                own.push(TargetState::new(path(&name), Some(image(&after)), image(&before)));
            }
        }
        for wanted in own.iter().rev() {
            let before = contents(&case.root());
            let plan = case.store.planner().plan_targets(std::slice::from_ref(wanted)).unwrap();
            let report =
                case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).unwrap();
            let after = contents(&case.root());
            let touched = wanted.path.to_string();
            let others = |all: &std::collections::BTreeMap<String, Vec<u8>>| {
                let mut all = all.clone();
                all.retain(|name, _| *name != touched && !name.ends_with('/'));
                all
            };
            assert_eq!(others(&before), others(&after), "seed {seed}");
            merged += report.merged.len();
            conflicts += report.conflicts.len();
            let lines = |all: &std::collections::BTreeMap<String, Vec<u8>>| -> usize {
                let text = all.get(&touched).cloned().unwrap_or_default();
                String::from_utf8(text).unwrap().matches("human").count()
            };
            assert!(lines(&after) >= lines(&before), "seed {seed}: a human's line is gone");
            if !report.conflicts.is_empty() {
                assert_eq!(before.get(&touched), after.get(&touched), "seed {seed}");
            }
            // Metamorphic: undoing the restore gives the tree before it.
            if rng.below(3) == 0 {
                let back = case.store.planner().plan_targets(&plan.inverse()).unwrap();
                case.store.restores().apply_plan(&back, &PinGroup::new("guard"), NOW).unwrap();
                assert_eq!(contents(&case.root()), before, "seed {seed}");
                case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).unwrap();
            }
        }
    }
    assert!(merged > 5 && conflicts > 5, "{merged} merged, {conflicts} conflicts");
}

/// Changes a line, adds one, removes the file or creates it again.
fn edit(case: &StoreFixture, name: &str, rng: &mut SeededRng, who: &str) {
    let Ok(text) = fs_err::read_to_string(case.at(name)) else {
        return case.write(name, format!("{who} made it\n"));
    };
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let at = rng.below(lines.len() as u64 + 1) as usize;
    match rng.below(8) {
        0 if who == "agent" && !text.contains("human") => return case.remove(name),
        1..=4 if at < lines.len() && !lines[at].contains("human") => {
            lines[at] = format!("{who} {}\n", rng.below(1000));
        }
        _ => lines.insert(at, format!("{who} {}\n", rng.below(1000))),
    }
    case.write(name, lines.concat());
}

/// W35, section 11: a capture that was collected changes nothing and says so.
#[test]
fn revert_to_a_missing_capture_changes_nothing() {
    let case = bootstrap();
    let lost = case.store.capture(&PinGroup::new("lost"), NOW).unwrap().capture;
    case.write("a.txt", "kept");
    case.write("new", "kept");
    let now = track(&case.store);
    let live = [PinGroup::new("session")].into();
    case.store.collector().gc(&live, NOW.plus(7_200_000), false).unwrap();
    let start = contents(&case.root());

    assert!(case.store.captures().get(&lost.id).is_err());
    assert!(case.store.planner().plan_restore(&lost, &now, None, false).is_err());
    assert!(case.store.diffs().between(&lost, &now, &DiffOptions::default()).is_err());
    assert_eq!(contents(&case.root()), start);
}

/// Section 11: an edit made after the snapshot is detected, not overwritten.
#[test]
fn later_edit_is_a_conflict_and_stays() {
    let case = bootstrap();
    let before = track(&case.store);
    case.write("a.txt", [0, 1]);
    let after = track(&case.store);
    case.write("a.txt", "by hand");
    assert_eq!(target_states(&case.store, &before, &after).len(), 1);

    let report = undo_changes(&case.store, &before, &after);

    assert_eq!(report.conflicts.len(), 1);
    assert_eq!(case.read("a.txt"), "by hand");
    let diff = case.store.diffs().between(&before, &after, &DiffOptions::default()).unwrap();
    assert_eq!(diff.files[0].status, DiffStatus::Modified);
}
