//! Taking back: exactly what was done, whatever the names, and nothing else.

use turnstone_snapshot::{DiffOptions, Group, Image, Selection, Shadow, Status, Wish};
use turnstone_testkit::fixture::Rng;

use crate::session::{bootstrap, contents, patch, paths, revert, take_back, track, wishes};
use crate::support::{Case, NOW, path, paths_of};

/// 8.1.2, 3, 6, 8, 10, 11, 15, 17, 18, 19; W11: the directories that came with them go as well.
#[test]
fn files_created_since_are_listed_and_removed_with_their_directories() {
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
    let before = track(&case.shadow);
    let start = contents(&case.root());
    for name in names {
        case.write(name, if name == "bin" { vec![0, 1, 2, 255] } else { vec![b'x'; 1 << 12] });
    }
    case.write("mebi", vec![b'm'; 1 << 20]);

    let listed = patch(&case, &before);
    let report = revert(&case.shadow, &before);

    assert_eq!(listed.len(), names.len() + 1);
    assert!(names.iter().all(|name| listed.iter().any(|it| it == name)), "{listed:?}");
    assert_eq!(report.removed.len(), names.len() + 1);
    assert_eq!(contents(&case.root()), start);
}

/// 8.1.1, 4, 38.
#[test]
fn a_deletion_a_creation_and_a_modification_are_taken_back_together() {
    let case = bootstrap();
    let before = track(&case.shadow);
    let start = contents(&case.root());
    case.remove("a.txt");
    assert_eq!(patch(&case, &before), ["a.txt"]);
    case.write("new.txt", "new");
    case.write("dir/inside.txt", "in");
    case.write("b.txt", "modified");
    let text = crate::session::diff(&case, &before).patch();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(["a.txt", "b.txt", "new.txt"].iter().all(|name| text.contains(name)));

    revert(&case.shadow, &before);

    assert_eq!(contents(&case.root()), start);
}

/// 8.1.16, W2: OpenCode deletes these files instead of restoring them, and skips its test.
#[test]
fn modified_files_of_any_name_get_their_bytes_back_w2_w4() {
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
    let before = track(&case.shadow);
    for name in names {
        case.write_bytes(name, "changed");
    }

    let report = revert(&case.shadow, &before);

    assert_eq!(report.restored.len(), names.len());
    for name in names {
        let at = case.root().join(std::ffi::OsStr::from_bytes(name));
        assert_eq!(fs_err::read(at).unwrap(), [b"original ", name].concat());
    }
}

/// 8.1.12, 14: nothing to do is no failure.
#[test]
fn reverting_nothing_or_what_is_nowhere_does_nothing() {
    let case = bootstrap();
    let start = contents(&case.root());
    let report =
        case.shadow.apply(&case.shadow.plan(&[]).unwrap(), &Group::new("guard"), NOW).unwrap();
    assert_eq!(report, turnstone_snapshot::Report::default());
    let nowhere = Wish::new(path("no/where"), Some(Image::Absent), Image::Absent);

    let plan = case.shadow.plan(&[nowhere]).unwrap();

    assert_eq!((plan.steps.len(), plan.unchanged.len()), (0, 1));
    assert_eq!(contents(&case.root()), start);
}

/// 8.1.40, 41.
#[test]
fn a_file_deleted_and_made_again_ends_as_the_snapshot_had_it() {
    let case = bootstrap();
    let first = track(&case.shadow);
    case.remove("a.txt");
    let second = track(&case.shadow);
    case.write("a.txt", "again");
    case.write("other", "o");
    assert_eq!(patch(&case, &second), ["a.txt", "other"]);

    revert(&case.shadow, &second);
    assert!(!case.at("a.txt").exists());

    case.write("a.txt", "again");
    case.write("other", "o");
    revert(&case.shadow, &first);
    assert_eq!(case.read("a.txt"), "A content");
    assert!(!case.at("other").exists());
}

/// 8.1.54, 55: OpenCode keeps the first hash of a path; taking back newest first ends there too.
#[test]
fn several_changes_of_one_path_are_taken_back_newest_first() {
    let case = bootstrap();
    let mut points = vec![track(&case.shadow)];
    let mut worlds = vec![contents(&case.root())];
    case.write("p", "file");
    points.push(track(&case.shadow));
    worlds.push(contents(&case.root()));
    case.remove("p");
    case.write("p/inside", "directory");
    points.push(track(&case.shadow));
    worlds.push(contents(&case.root()));
    fs_err::remove_dir_all(case.at("p")).unwrap();
    case.write("p", "file again");
    case.write("a.txt", "changed");
    points.push(track(&case.shadow));
    worlds.push(contents(&case.root()));

    for index in (0..3).rev() {
        let report = take_back(&case.shadow, &points[index], &points[index + 1]);
        assert!(report.conflicts.is_empty(), "{report:?}");
        assert_eq!(contents(&case.root()), worlds[index], "point {index}");
    }
}

/// 8.1.56.
#[test]
fn a_hundred_and_two_files_are_listed_and_taken_back() {
    let case = bootstrap();
    for index in 0..101 {
        case.write(&format!("f{index}"), "old");
    }
    let before = track(&case.shadow);
    let start = contents(&case.root());
    for index in 0..101 {
        case.write(&format!("f{index}"), "new");
    }
    case.write("added", "a");
    assert_eq!(patch(&case, &before).len(), 102);

    revert(&case.shadow, &before);

    assert_eq!(contents(&case.root()), start);
}

/// W3: OpenCode lists the new name only, and the content is lost.
#[test]
fn a_moved_file_comes_back_to_its_old_name_w3() {
    let case = bootstrap();
    let before = track(&case.shadow);
    let start = contents(&case.root());
    fs_err::create_dir(case.at("moved")).unwrap();
    fs_err::rename(case.at("a.txt"), case.at("moved/a.txt")).unwrap();

    revert(&case.shadow, &before);

    assert_eq!(contents(&case.root()), start);
}

/// 8.1.39, 8.2: with `keep_added` a restore leaves new files, as OpenCode's does.
#[test]
fn a_restore_that_keeps_added_files_brings_back_the_others() {
    let case = bootstrap();
    let target = track(&case.shadow);
    case.remove("a.txt");
    case.write("b.txt", "modified");
    case.write("new.txt", "stays");
    let now = track(&case.shadow);
    let plan = case.shadow.plan_restore(&target, &now, None, true).unwrap();

    case.shadow.apply(&plan, &Group::new("guard"), NOW).unwrap();

    let texts = ["a.txt", "b.txt", "new.txt"].map(|name| case.read(name));
    assert_eq!(texts, ["A content", "B content", "stays"]);
}

/// W5, 8.2: an undo in a directory changes nothing beside it.
#[test]
fn restoring_a_directory_leaves_what_lies_beside_it_w5() {
    let case = bootstrap();
    case.write("front/f", "1");
    case.write("back/b", "1");
    let target = track(&case.shadow);
    case.write("front/f", "2");
    case.write("back/b", "edited by hand");
    let now = track(&case.shadow);
    let front = paths_of(&["front"]);
    let plan = case.shadow.plan_restore(&target, &now, Some(&front), false).unwrap();
    assert_eq!(plan.steps.len(), 1);

    case.shadow.apply(&plan, &Group::new("guard"), NOW).unwrap();

    assert_eq!((case.read("front/f"), case.read("back/b")), ("1".into(), "edited by hand".into()));
}

/// W7, W8: what the repository's filters and line ends would make of a file is not what it is.
#[test]
fn files_under_filters_and_line_end_rules_come_back_byte_for_byte_w7_w8() {
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
    let before = track(&case.shadow);
    for name in ["s.secret", "crlf.txt", "x.id"] {
        case.write(name, "changed");
    }

    revert(&case.shadow, &before);

    assert_eq!(contents(&case.root()), start);
}

/// 8.1.33, 34, 35, 36, 8.2, W15: each worktree has its own store and sees its own files.
#[test]
fn linked_worktrees_and_other_projects_do_not_see_each_other() {
    let case = bootstrap();
    let git = |args: &[&str]| case.git_in(&case.root(), args);
    git(&["commit", "-q", "--allow-empty", "-m", "root"]);
    let linked = case.dir.path().join("linked");
    git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    let worktree = turnstone_snapshot::Worktree::open(&linked, &Default::default()).unwrap();
    let store = case.dir.path().join("store of the linked one");
    let other = Shadow::open(&store, worktree, Selection::default()).unwrap();
    let (here, there) = (track(&case.shadow), track(&other));
    case.write("shared.txt", "primary");
    case.write("only-here.txt", "p");
    fs_err::write(linked.join("shared.txt"), "linked").unwrap();

    let diff = other.diff_worktree(&there, &DiffOptions::default()).unwrap();
    assert_eq!(paths(&diff), ["shared.txt"]);
    assert_eq!(patch(&case, &here), ["only-here.txt", "shared.txt"]);
    revert(&other, &there);

    assert!(!linked.join("shared.txt").exists());
    assert_eq!(case.read("shared.txt"), "primary");
    assert_ne!(case.shadow.git_dir(), other.git_dir());
}

/// W12: two actors edit at the same time; taking back what one did changes no path it did not touch,
/// keeps the other's edits of the same file, and says what it could not do.
#[test]
fn taking_back_one_actors_changes_never_alters_a_path_that_is_not_among_them_w12() {
    let mut merged = 0;
    let mut conflicts = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let case = Case::in_memory();
        let body = |tag: &str| -> Vec<String> { (0..12).map(|n| format!("{tag} {n}\n")).collect() };
        let names: Vec<String> = (0..8).map(|n| format!("d{}/f{n}", n % 3)).collect();
        for name in &names {
            case.write(name, body(name).concat());
        }
        let mut own: Vec<Wish> = Vec::new();
        for _ in 0..rng.within(2..=10) {
            let name = rng.choose(&names).unwrap().clone();
            let is_agent = rng.below(2) == 0;
            let before = case.capture_named(&[&name]).capture;
            edit(&case, &name, &mut rng, if is_agent { "agent" } else { "human" });
            let after = case.capture_named(&[&name]).capture;
            let image = |capture| case.shadow.image(capture, &path(&name)).unwrap();
            if is_agent && image(&before) != image(&after) {
                own.push(Wish::new(path(&name), Some(image(&after)), image(&before)));
            }
        }
        for wish in own.iter().rev() {
            let before = contents(&case.root());
            let plan = case.shadow.plan(std::slice::from_ref(wish)).unwrap();
            let report = case.shadow.apply(&plan, &Group::new("guard"), NOW).unwrap();
            let after = contents(&case.root());
            let touched = wish.path.to_string();
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
            // Metamorphic: the restore, taken back itself, gives the tree before it.
            if rng.below(3) == 0 {
                let back = case.shadow.plan(&plan.inverse()).unwrap();
                case.shadow.apply(&back, &Group::new("guard"), NOW).unwrap();
                assert_eq!(contents(&case.root()), before, "seed {seed}");
                case.shadow.apply(&plan, &Group::new("guard"), NOW).unwrap();
            }
        }
    }
    assert!(merged > 5 && conflicts > 5, "{merged} merged, {conflicts} conflicts");
}

/// Changes a line, adds one, removes the file or makes it anew.
fn edit(case: &Case, name: &str, rng: &mut Rng, who: &str) {
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

/// W1, section 11: a capture that was collected changes nothing and says so.
#[test]
fn reverting_to_a_capture_that_is_gone_changes_nothing_w1() {
    let case = bootstrap();
    let lost = case.shadow.capture(&Group::new("lost"), NOW).unwrap().capture;
    case.write("a.txt", "kept");
    case.write("new", "kept");
    let now = track(&case.shadow);
    let live = [Group::new("session")].into();
    case.shadow.gc(&live, NOW.plus(7_200_000), false).unwrap();
    let start = contents(&case.root());

    assert!(case.shadow.get_capture(&lost.id).is_err());
    assert!(case.shadow.plan_restore(&lost, &now, None, false).is_err());
    assert!(case.shadow.diff(&lost, &now, &DiffOptions::default()).is_err());
    assert_eq!(contents(&case.root()), start);
}

/// Section 11: an edit made after the snapshot is detected, not overwritten.
#[test]
fn an_edit_made_since_is_a_conflict_and_stays() {
    let case = bootstrap();
    let before = track(&case.shadow);
    case.write("a.txt", [0, 1]);
    let after = track(&case.shadow);
    case.write("a.txt", "by hand");
    assert_eq!(wishes(&case.shadow, &before, &after).len(), 1);

    let report = take_back(&case.shadow, &before, &after);

    assert_eq!(report.conflicts.len(), 1);
    assert_eq!(case.read("a.txt"), "by hand");
    let diff = case.shadow.diff(&before, &after, &DiffOptions::default()).unwrap();
    assert_eq!(diff.files[0].status, Status::Modified);
}
