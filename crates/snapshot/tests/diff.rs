//! Differences: right counts, patches that git takes, and bounds.

#[expect(dead_code, reason = "shared by several test programs")]
#[cfg(test)]
mod support;

use support::{StoreFixture, path};
use turnstone_snapshot::{
    Capture, CaptureDiff, DiffOptions, DiffStatus, PatchBody, UncoveredReason,
};
use turnstone_testkit::fixture::SeededRng;

fn diff(case: &StoreFixture, edit: impl FnOnce()) -> CaptureDiff {
    let before = case.capture().capture;
    edit();
    let after = case.capture().capture;
    case.store
        .diffs()
        .between(&before, &after, &DiffOptions::default())
        .expect("both captures are readable")
}

/// Path, status, lines added and deleted.
type Row = (String, DiffStatus, usize, usize);

fn rows(diff: &CaptureDiff) -> Vec<Row> {
    let row = |file: &turnstone_snapshot::PathDiff| {
        (file.path.to_string(), file.status, file.additions, file.deletions)
    };
    diff.files.iter().map(row).collect()
}

#[test]
fn status_and_lines_are_counted() {
    let case = StoreFixture::new();
    case.write("gone", "old\n");
    case.write("grow", "1\n2\n");
    case.write("same", "s");
    case.write("kind", "text\n");
    let diff = diff(&case, || {
        case.remove("gone");
        case.write("grow", "1\n2\n3\n4");
        case.write("new/file", "a\nb\nc");
        case.remove("kind");
        case.link("kind", "same");
        case.write("binary", [0_u8, 1, 2]);
    });

    assert_eq!(
        rows(&diff),
        [
            ("binary".to_owned(), DiffStatus::Added, 0, 0),
            ("gone".to_owned(), DiffStatus::Deleted, 0, 1),
            ("grow".to_owned(), DiffStatus::Modified, 2, 0),
            ("kind".to_owned(), DiffStatus::Type, 1, 1),
            ("new/file".to_owned(), DiffStatus::Added, 3, 0),
        ]
    );
    assert_eq!(diff.files[0].patch, PatchBody::Binary);
}

/// Proves W37.
#[test]
fn move_is_a_deletion_and_an_addition() {
    let case = StoreFixture::new();
    case.write("old", "content\n");
    let diff = diff(&case, || fs_err::rename(case.at("old"), case.at("new")).unwrap());

    let found: Vec<_> = diff.files.iter().map(|file| (file.path.clone(), file.status)).collect();
    assert_eq!(found, [(path("new"), DiffStatus::Added), (path("old"), DiffStatus::Deleted)]);
}

#[test]
fn patches_apply_with_git_apply() {
    let case = StoreFixture::new();
    let lines =
        |edit: &dyn Fn(usize) -> Option<String>| -> String { (0..400).filter_map(edit).collect() };
    case.write("many", lines(&|n| Some(format!("line {n}\n"))));
    case.write("crlf", "a\r\nb\r\n");
    case.write("end", "no newline");
    case.write("with space", "x\n");
    case.write("q\"\t文", "odd\n");
    case.write("mode", "m\n");
    case.write("both", "1\n2\n3\n");
    case.write("empty-soon", "e\n");
    case.write("kind", "file\n");
    case.write("dir/gone", "g\n");
    let before = case.capture().capture;
    case.write(
        "many",
        lines(&|n| match n {
            0 | 399 => Some("edge\n".to_owned()),
            50..60 => None,
            100 => Some("line 100\nadded\n".to_owned()),
            107 | 114 => Some("near\n".to_owned()),
            _ => Some(format!("line {n}\n")),
        }),
    );
    case.write("crlf", "a\r\nc\r\n");
    case.write("end", "no newline\nand more");
    case.write("with space", "y\n");
    case.write("q\"\t文", "odder\n");
    case.chmod("mode", 0o755);
    case.chmod("both", 0o755);
    case.write("both", "1\nzwei\n3\n");
    case.write("empty-soon", "");
    case.write("new-empty", "");
    case.write("new/deep", "n");
    case.remove("kind");
    case.link("kind", "many");
    case.remove("dir/gone");
    let after = case.capture().capture;

    for context in [0, 1, 3, 10] {
        let options = DiffOptions { context, ..DiffOptions::default() };
        let diff = case.store.diffs().between(&before, &after, &options).unwrap();
        let file = case.dir.path().join("patch");
        fs_err::write(&file, diff.patch()).unwrap();
        let text = file.to_str().unwrap();
        case.git(&["read-tree", &before.tree.to_string()]);
        case.git(&["apply", "--cached", "--unidiff-zero", text]);
        assert_eq!(case.git(&["write-tree"]), after.tree.to_string(), "{context}");
    }
}

/// Files that are no text, in both directions, next to text that is no UTF-8.
#[test]
fn git_applies_binary_patches() {
    let case = StoreFixture::new();
    let noise = |seed: u32, length: u32| -> Vec<u8> {
        (0..length)
            .map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8)
            .collect()
    };
    case.write("changed", noise(1, 5000));
    case.write("gone", noise(2, 53));
    case.write("latin", b"gr\xfc\xdfe\n1\n2\n");
    case.write("kind", noise(3, 100));
    case.write("mode", noise(4, 52));
    let before = case.capture().capture;
    case.write("changed", noise(5, 4999));
    case.remove("gone");
    case.write("latin", b"gr\xfc\xdfe\n1\nzwei\n");
    case.remove("kind");
    case.link("kind", "changed");
    case.chmod("mode", 0o755);
    case.write("new file", [0, 1, 2]);
    let after = case.capture().capture;

    let options = DiffOptions { binary_patches: true, ..DiffOptions::default() };
    let diff = case.store.diffs().between(&before, &after, &options).unwrap();
    let is_binary = |name: &str| name != "latin";
    for file in &diff.files {
        let is_patched = matches!(file.patch, PatchBody::BinaryPatch(_));
        assert_eq!(is_patched, is_binary(&file.path.to_string()), "{}", file.path);
    }
    let file = case.dir.path().join("patch");
    fs_err::write(&file, diff.patch()).unwrap();
    let text = file.to_str().unwrap();
    case.git(&["read-tree", &before.tree.to_string()]);
    case.git(&["apply", "--cached", text]);
    assert_eq!(case.git(&["write-tree"]), after.tree.to_string());
    case.git(&["apply", "--cached", "--reverse", text]);
    assert_eq!(case.git(&["write-tree"]), before.tree.to_string());

    let options = DiffOptions { max_binary_bytes: 1000, ..options };
    let diff = case.store.diffs().between(&before, &after, &options).unwrap();
    assert!(diff.files[0].patch == PatchBody::TooLarge);
}

#[test]
fn text_that_is_not_compared_is_in_a_whole_patch_as_bytes() {
    let case = StoreFixture::new();
    case.write("large", "a line\n".repeat(1000));
    case.write("latin", b"caf\xe9\n");
    let before = case.capture().capture;
    case.write("large", "another line\n".repeat(1000));
    case.write("latin", b"th\xe9\n");
    let after = case.capture().capture;
    let options = DiffOptions { max_file_bytes: 1000, ..DiffOptions::default() };
    let whole = DiffOptions { binary_patches: true, ..options.clone() };
    let utf8 = DiffOptions { only_utf8_is_text: true, ..whole.clone() };
    let bodies = |options| {
        let diff = case.store.diffs().between(&before, &after, options).unwrap();
        let kind = |body: &PatchBody| match body {
            PatchBody::Text(_) => "text",
            PatchBody::Binary => "none",
            PatchBody::BinaryPatch(_) => "bytes",
            PatchBody::TooLarge => "large",
        };
        diff.files.iter().map(|file| kind(&file.patch)).collect::<Vec<_>>()
    };
    assert_eq!(bodies(&options), ["large", "text"]);
    assert_eq!(bodies(&whole), ["bytes", "text"]);
    assert_eq!(bodies(&utf8), ["bytes", "bytes"]);
}

/// Proves W53.
#[test]
fn diff_of_200k_changed_lines_does_not_stall() {
    let case = StoreFixture::new();
    let text = |word: &str| -> String { (0..200_000).map(|n| format!("{word} {n}\n")).collect() };
    case.write("big", text("old"));
    let diff = diff(&case, || case.write("big", text("new")));

    let file = &diff.files[0];
    assert_eq!((file.additions, file.deletions), (200_000, 200_000));
    assert_eq!(file.patch, PatchBody::TooLarge);
    let before = case.capture().capture;
    case.write("big", text("newer"));
    let after = case.capture().capture;
    let small = DiffOptions { max_file_bytes: 1000, ..DiffOptions::default() };
    let diff = case.store.diffs().between(&before, &after, &small).unwrap();
    assert_eq!((diff.files[0].additions, &diff.files[0].patch), (0, &PatchBody::TooLarge));
}

/// Proves W35.
#[test]
fn diff_with_unknown_tree_is_an_error() {
    let case = StoreFixture::new();
    case.write("a", "1");
    let good = case.capture().capture;
    let mut bad = good.clone();
    bad.tree = "0123456789012345678901234567890123456789".parse().unwrap();

    assert!(case.store.diffs().between(&bad, &good, &DiffOptions::default()).is_err());
    assert!(case.store.captures().path_image(&bad, &path("a")).is_err());
}

fn diff_with_worktree(
    case: &StoreFixture,
    capture: &Capture,
    options: &DiffOptions,
) -> CaptureDiff {
    case.store.diffs().with_worktree(capture, options).expect("the worktree is readable")
}

/// Everything a difference says, for comparison.
fn rows_patches_and_text(diff: &CaptureDiff) -> (Vec<Row>, Vec<PatchBody>, String) {
    let patches = diff.files.iter().map(|file| file.patch.clone()).collect();
    (rows(diff), patches, format!("{:?}", diff.not_covered))
}

#[test]
fn worktree_diff_equals_capture_diff_and_stores_nothing() {
    for seed in 0..25 {
        let mut rng = SeededRng::new(seed);
        let case = StoreFixture::new_git_checkout();
        case.write(".gitignore", "*.log\n");
        for _ in 0..rng.in_range(3..=20) {
            random_change(&case, &mut rng);
        }
        let before = case.capture().capture;
        for _ in 0..rng.in_range(0..=12) {
            random_change(&case, &mut rng);
        }
        let stored = files_below(&case.dir.path().join("store"));
        let scope = (rng.below(2) == 0).then(|| path(&format!("n{}", rng.below(3))));
        let options = DiffOptions { scope, ..DiffOptions::default() };

        let disk = diff_with_worktree(&case, &before, &options);

        assert_eq!(files_below(&case.dir.path().join("store")), stored, "seed {seed}");
        let after = case.capture().capture;
        let captured = case.store.diffs().between(&before, &after, &options).unwrap();
        assert_eq!(
            rows_patches_and_text(&disk),
            rows_patches_and_text(&captured),
            "seed {seed} {options:?}"
        );
    }
}

/// Names, sizes and times of all files below.
fn files_below(folder: &std::path::Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).expect("listed") {
        let entry = entry.expect("entry");
        let meta = entry.metadata().expect("there");
        match meta.is_dir() {
            true => found.extend(files_below(&entry.path())),
            false => found.push((
                entry.path().display().to_string(),
                meta.len(),
                meta.modified().expect("a time"),
            )),
        }
    }
    found.sort();
    found
}

/// Writes, links, moves or removes a file somewhere; kinds change places.
fn random_change(case: &StoreFixture, rng: &mut SeededRng) {
    let parts: Vec<String> =
        (0..rng.in_range(1..=3)).map(|_| format!("n{}", rng.below(3))).collect();
    let mut name = parts.join("/");
    if rng.below(6) == 0 {
        name.push_str(".log");
    }
    let at = case.at(&name);
    for above in at.ancestors().skip(1).take(parts.len() - 1) {
        if fs_err::symlink_metadata(above).is_ok_and(|meta| !meta.is_dir()) {
            fs_err::remove_file(above).expect("removed");
        }
    }
    if fs_err::symlink_metadata(&at).is_ok_and(|meta| meta.is_dir()) {
        fs_err::remove_dir_all(&at).expect("removed");
    }
    fs_err::remove_file(&at).ok();
    fs_err::create_dir_all(at.parent().expect("a parent")).expect("made");
    match rng.below(5) {
        0 => {}
        1 => case.link(&name, "somewhere"),
        2 => case.write(&name, [0, rng.below(9) as u8]),
        _ => case.write(&name, text(rng, 30, 8)),
    }
}

fn text(rng: &mut SeededRng, lines: u64, words: u64) -> String {
    let end = if rng.below(4) == 0 { "" } else { "\n" };
    let lines: Vec<String> =
        (0..rng.in_range(0..=lines)).map(|_| format!("word {}", rng.below(words))).collect();
    if lines.is_empty() { String::new() } else { lines.join("\n") + end }
}

/// W47: one engine; a path that one side does not cover is never shown as added or deleted (R1).
#[test]
fn uncovered_paths_are_neither_added_nor_deleted() {
    let case = StoreFixture::new_git_checkout();
    case.write("leaves", "was captured\n");
    case.write("comes", "was ignored\n");
    case.write(".gitignore", "comes\n");
    case.write("locked/file", "l\n");
    case.write("stays", "s\n");
    let before = case.capture().capture;
    case.write(".gitignore", "leaves\n");
    case.chmod("locked", 0o000);
    let readable = fs_err::read_dir(case.at("locked")).is_ok();

    let diff = diff_with_worktree(&case, &before, &DiffOptions::default());

    case.chmod("locked", 0o755);
    let names: Vec<_> = diff.files.iter().map(|file| file.path.to_string()).collect();
    assert_eq!(names, [".gitignore"]);
    let mut uncovered =
        vec![(path("comes"), UncoveredReason::Ignored), (path("leaves"), UncoveredReason::Ignored)];
    if !readable {
        uncovered.push((path("locked/file"), UncoveredReason::Unreadable));
    }
    assert_eq!(diff.not_covered, uncovered);
}

#[test]
fn named_capture_compares_only_its_paths_with_the_worktree() {
    let case = StoreFixture::new();
    case.write("named", "1\n");
    case.write("other", "1\n");
    let before = case.capture_named(&["named", "made", "still-absent"]).capture;
    case.write("named", "2\n");
    case.write("other", "2\n");
    case.write("made", "m\n");

    let diff = diff_with_worktree(&case, &before, &DiffOptions::default());

    assert_eq!(
        rows(&diff),
        [
            ("made".to_owned(), DiffStatus::Added, 1, 0),
            ("named".to_owned(), DiffStatus::Modified, 1, 1)
        ]
    );
    assert!(diff.not_covered.is_empty());
}

#[test]
fn line_counts_equal_gits() {
    let case = StoreFixture::new();
    let mut rng = SeededRng::new(7);
    let name = |index: usize| format!("f{index:03}");
    for index in 0..300 {
        let words = [3, 10, 1000][index % 3];
        case.write(&name(index), text(&mut rng, 60, words));
    }
    let before = case.capture().capture;
    for index in 0..300 {
        let old = case.read(&name(index));
        let words = [3, 10, 1000][index % 3];
        let mut lines: Vec<String> = old.split_inclusive('\n').map(str::to_owned).collect();
        for _ in 0..rng.in_range(0..=8) {
            let at = rng.below(lines.len() as u64 + 1) as usize;
            match rng.below(3) {
                0 => lines.insert(at, format!("word {}\n", rng.below(words))),
                1 if at < lines.len() => drop(lines.remove(at)),
                _ if at < lines.len() => lines[at] = format!("word {}\r\n", rng.below(words)),
                _ => {}
            }
        }
        case.write(&name(index), lines.concat());
    }

    let disk = diff_with_worktree(&case, &before, &DiffOptions::default());

    let after = case.capture().capture;
    let trees = [before.tree.to_string(), after.tree.to_string()];
    let git = case.git(&["diff", "--no-renames", "--numstat", &trees[0], &trees[1]]);
    let ours: Vec<String> = disk
        .files
        .iter()
        .map(|file| format!("{}\t{}\t{}", file.additions, file.deletions, file.path))
        .collect();
    let git: Vec<&str> = git.lines().collect();
    let wrong: Vec<_> = ours.iter().zip(&git).filter(|(ours, git)| ours != *git).collect();
    assert_eq!(ours.len(), git.len());
    assert!(wrong.is_empty(), "{} of {}: {:?}", wrong.len(), git.len(), wrong);
}

/// Proves W38.
#[test]
fn patches_with_unusual_names_and_kinds_apply_with_git_apply() {
    for seed in 0..16 {
        let mut rng = SeededRng::new(seed);
        let case = StoreFixture::in_memory();
        let names: [&[u8]; 12] = [
            b"tab\there",
            b"new\nline",
            b"quote\"s",
            b"back\\slash",
            b"\xff\xfe/\x80",
            b" lead",
            b"trail ",
            b"-dash",
            b":colon",
            "文件/ж".as_bytes(),
            b"bell\x07\x7f",
            b"a\rb",
        ];
        let put = |rng: &mut SeededRng, name: &[u8]| {
            use std::os::unix::ffi::OsStrExt;
            let at = case.root().join(std::ffi::OsStr::from_bytes(name));
            fs_err::remove_file(&at).ok();
            match rng.below(6) {
                0 => {}
                1 => {
                    fs_err::create_dir_all(at.parent().expect("a parent")).expect("made");
                    std::os::unix::fs::symlink(format!("to {}", rng.below(3)), at).expect("linked");
                }
                kind => {
                    case.write_bytes(
                        name,
                        text(rng, 12, 5).replace('\n', ["\n", "\r\n"][seed as usize % 2]),
                    );
                    if kind == 2 {
                        use std::os::unix::fs::PermissionsExt;
                        fs_err::set_permissions(at, PermissionsExt::from_mode(0o755)).expect("set");
                    }
                }
            }
        };
        names.iter().for_each(|name| put(&mut rng, name));
        let before = case.capture().capture;
        names.iter().for_each(|name| put(&mut rng, name));
        let options = DiffOptions { context: rng.below(4) as usize, ..DiffOptions::default() };

        let diff = diff_with_worktree(&case, &before, &options);

        let after = case.capture().capture;
        if diff.patch().is_empty() {
            assert_eq!(before.tree, after.tree);
            continue;
        }
        let file = case.dir.path().join("patch");
        fs_err::write(&file, diff.patch()).unwrap();
        let text = file.to_str().unwrap();
        case.git(&["read-tree", &before.tree.to_string()]);
        case.git(&["apply", "--cached", "--unidiff-zero", text]);
        assert_eq!(case.git(&["write-tree"]), after.tree.to_string(), "seed {seed}");
    }
}

/// W53: no input makes a difference slow or large; what is left out is marked.
#[test]
fn diff_time_and_total_patch_size_are_bounded() {
    let case = StoreFixture::new();
    let mut rng = SeededRng::new(1);
    let mut noise =
        |lines: u64| -> String { (0..lines).map(|_| format!("{}\n", rng.below(2))).collect() };
    case.write("hostile", noise(150_000));
    case.write("few", noise(2000));
    let long: String = (0..120_000).map(|n| format!("{n}\n")).collect();
    case.write("long", format!("{long}old"));
    let before = case.capture().capture;
    case.write("hostile", noise(150_000));
    case.write("few", noise(2000));
    case.write("long", format!("{long}new"));

    let diff = diff_with_worktree(&case, &before, &DiffOptions::default());

    let is_cut = |diff: &CaptureDiff| -> Vec<bool> {
        diff.files.iter().map(|file| file.patch == PatchBody::TooLarge).collect()
    };
    assert_eq!(is_cut(&diff), [false, true, false], "few, hostile, long");
    assert_eq!(rows(&diff)[2], ("long".to_owned(), DiffStatus::Modified, 1, 1));
    let options = DiffOptions { max_total_bytes: 1000, ..DiffOptions::default() };
    let diff = diff_with_worktree(&case, &before, &options);
    assert_eq!(is_cut(&diff), [true, true, false]);
    assert!(diff.files[0].additions > 0 && diff.patch().len() <= 1000);
    let options = DiffOptions { max_lines: 100, ..DiffOptions::default() };
    assert_eq!(is_cut(&diff_with_worktree(&case, &before, &options)), [true, true, false]);
    let options = DiffOptions { max_file_bytes: 1000, ..DiffOptions::default() };
    assert_eq!(is_cut(&diff_with_worktree(&case, &before, &options)), [true, true, true]);
}

/// W37: renames are words for people; what happened to each file stays in the list.
#[test]
fn renames_are_detected_and_all_files_stay_listed() {
    let case = StoreFixture::new();
    let body = |mark: &str| -> String { (0..40).map(|n| format!("{mark} {n}\n")).collect() };
    case.write("exact", body("exact"));
    case.write("edited", body("edited"));
    case.write("unlike", body("unlike"));
    let before = case.capture().capture;
    fs_err::create_dir(case.at("moved")).unwrap();
    fs_err::rename(case.at("exact"), case.at("moved/exact")).unwrap();
    case.remove("edited");
    case.write("moved/edited", body("edited").replace("edited 7\n", "seven\n"));
    case.remove("unlike");
    case.write("new", "nothing in common\n");
    let options = DiffOptions { renames: true, ..DiffOptions::default() };

    let diff = diff_with_worktree(&case, &before, &options);

    let found: Vec<_> = diff
        .renames
        .iter()
        .map(|it| (it.from.to_string(), it.to.to_string(), it.similarity == 100))
        .collect();
    let pair = |from: &str, to: &str, exact| (from.to_owned(), to.to_owned(), exact);
    assert_eq!(found, [pair("edited", "moved/edited", false), pair("exact", "moved/exact", true)]);
    assert_eq!(diff.files.len(), 6);
    assert!(!diff.renames_cut);
    assert!(diff_with_worktree(&case, &before, &DiffOptions::default()).renames.is_empty());
}

/// Proves W35.
#[test]
fn worktree_diff_with_unknown_tree_is_an_error() {
    let case = StoreFixture::new();
    case.write("a", "1");
    let mut lost = case.capture().capture;
    lost.tree = "0123456789012345678901234567890123456789".parse().unwrap();

    assert!(case.store.diffs().with_worktree(&lost, &DiffOptions::default()).is_err());
}

/// Type changes are a deletion and an addition, directories included; git applies them to real files.
#[test]
fn patches_of_every_kind_transition_apply() {
    type Make = fn(&StoreFixture);
    let kinds: [Make; 5] = [
        |_| {},
        |case| case.write("p", "file\n"),
        |case| {
            case.write("p", "run me");
            case.chmod("p", 0o755);
        },
        |case| case.link("p", "elsewhere"),
        |case| {
            case.write("p/a", "a\n");
            case.write("p/b/c", "");
        },
    ];
    for one in kinds {
        for other in kinds {
            let (from, to) = (StoreFixture::in_memory(), StoreFixture::in_memory());
            for case in [&from, &to] {
                case.write("keep", "k\n");
            }
            one(&from);
            other(&to);
            let wanted = to.capture().capture.tree;
            // The same files in one worktree, one after the other.
            let case = StoreFixture::in_memory();
            case.write("keep", "k\n");
            one(&case);
            let before = case.capture().capture;
            fs_err::remove_file(case.at("p"))
                .or_else(|_| fs_err::remove_dir_all(case.at("p")))
                .ok();
            other(&case);
            let patch = diff_with_worktree(&case, &before, &DiffOptions::default()).patch();
            if !patch.is_empty() {
                let file = from.dir.path().join("patch");
                fs_err::write(&file, patch).unwrap();
                from.git_in(&from.root(), &["apply", file.to_str().unwrap()]);
            }
            assert_eq!(from.capture().capture.tree, wanted);
        }
    }
}

#[test]
fn many_renames_pair_only_equal_files_and_report_truncation() {
    let case = StoreFixture::in_memory();
    for index in 0..210 {
        case.write(&format!("old/{index}"), format!("{index}\n").repeat(20));
    }
    let before = case.capture().capture;
    fs_err::rename(case.at("old"), case.at("new")).unwrap();
    case.write("new/209", "209\n".repeat(19));
    let options = DiffOptions { renames: true, ..DiffOptions::default() };

    let diff = diff_with_worktree(&case, &before, &options);

    assert_eq!(diff.files.len(), 420);
    assert!(diff.renames.len() >= 209 && diff.renames_cut);
    assert!(diff.renames.iter().all(|it| it.from.name() == it.to.name()));
}
