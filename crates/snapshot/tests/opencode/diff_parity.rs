//! `diffFull`: rows, counts and texts.

use turnstone_snapshot::{CaptureDiff, DiffOptions, DiffStatus, PatchBody, PathDiff};

use crate::fixture::{bootstrap, track};
use crate::support::StoreFixture;

fn between(case: &StoreFixture, edit: impl FnOnce()) -> CaptureDiff {
    let before = track(&case.store);
    edit();
    let after = track(&case.store);
    case.store.diffs().between(&before, &after, &DiffOptions::default()).expect("compared")
}

fn row(file: &PathDiff) -> (String, DiffStatus, usize, usize) {
    (file.path.to_string(), file.status, file.additions, file.deletions)
}

fn text(file: &PathDiff) -> String {
    match &file.patch {
        PatchBody::Text(text) => String::from_utf8(text.clone()).expect("text"),
        PatchBody::Binary | PatchBody::BinaryPatch(_) | PatchBody::TooLarge => String::new(),
    }
}

/// 8.1.42, 43, 46, 47, 48, 49, 50, 53.
#[test]
fn diff_rows_have_status_line_counts_and_patch() {
    let case = bootstrap();
    for (name, body) in [
        ("grow", "1\n2\n"),
        ("shrink", "1\n2\n3\n"),
        ("modify", "old line\n"),
        ("gone1", "x\n"),
        ("gone3", "x\ny\nz"),
        ("space", "a b\n"),
    ] {
        case.write(name, body);
    }
    let diff = between(&case, || {
        case.write("grow", "1\n2\n3\n");
        case.write("shrink", "1\n");
        case.write("modify", "new line\n");
        case.remove("gone1");
        case.remove("gone3");
        case.write("space", "a  b\n");
        case.write("new1", "new content");
        case.write("new3", "one\ntwo\nthree");
    });

    let rows: Vec<_> = diff.files.iter().map(row).collect();
    let want = [
        ("gone1", DiffStatus::Deleted, 0, 1),
        ("gone3", DiffStatus::Deleted, 0, 3),
        ("grow", DiffStatus::Modified, 1, 0),
        ("modify", DiffStatus::Modified, 1, 1),
        ("new1", DiffStatus::Added, 1, 0),
        ("new3", DiffStatus::Added, 3, 0),
        ("shrink", DiffStatus::Modified, 0, 2),
        ("space", DiffStatus::Modified, 1, 1),
    ];
    assert_eq!(rows, want.map(|(name, status, more, less)| (name.to_owned(), status, more, less)));
    assert!(text(&diff.files[0]).contains("\n-x"));
    let modified = text(&diff.files[3]);
    assert!(modified.contains("\n-old line\n+new line\n"), "{modified}");
    assert!(text(&diff.files[4]).contains("\n+new content"));
}

/// 8.1.51, 52.
#[test]
fn unchanged_file_has_no_row_and_binary_file_no_patch() {
    let case = bootstrap();
    assert!(between(&case, || {}).files.is_empty());

    let diff = between(&case, || case.write("bin", [0, 1, 2]));

    assert_eq!(diff.files.len(), 1);
    assert_eq!((&diff.files[0].patch, text(&diff.files[0]).len()), (&PatchBody::Binary, 0));
}

/// 8.1.44, 45.
#[test]
fn over_100_diff_rows_keep_git_order_and_patches() {
    let case = bootstrap();
    for index in 0..26 {
        case.write(&format!("{index:02}-modified"), format!("старый {index}\n"));
        case.write(&format!("{index:02}-deleted"), format!("удалён {index}\n"));
        case.write(&format!("{index:02}-binary"), [0, 1, index]);
    }
    for index in 0..101 {
        case.write(&format!("z{index:03}"), "old\n");
    }
    let before = track(&case.store);
    for index in 0..26 {
        case.write(&format!("{index:02}-modified"), format!("новый 文 {index}\n"));
        case.remove(&format!("{index:02}-deleted"));
        case.write(&format!("{index:02}-added"), format!("добавлен {index}\n"));
        case.write(&format!("{index:02}-binary"), [0, 2, index]);
    }
    for index in 0..101 {
        case.write(&format!("z{index:03}"), "new\n");
    }
    let after = track(&case.store);

    let diff = case.store.diffs().between(&before, &after, &DiffOptions::default()).unwrap();

    let names: Vec<String> = diff.files.iter().map(|file| file.path.to_string()).collect();
    let trees = [before.tree.to_string(), after.tree.to_string()];
    let git = case.git(&["diff", "--no-renames", "--name-only", &trees[0], &trees[1]]);
    assert_eq!(names, git.lines().collect::<Vec<_>>());
    for file in &diff.files {
        let (name, status) = (file.path.to_string(), file.status);
        let number = name[..2].parse::<usize>().unwrap_or(0);
        match name.split_once('-').map(|it| it.1) {
            Some("added") => assert!(text(file).contains(&format!("+добавлен {number}\n"))),
            Some("deleted") => assert!(text(file).contains(&format!("-удалён {number}\n"))),
            Some("binary") => {
                assert_eq!(row(file), (name.clone(), DiffStatus::Modified, 0, 0));
                assert_eq!(text(file), "");
            }
            Some(_) => assert!(text(file).contains(&format!("+новый 文 {number}\n"))),
            None => {
                assert_eq!((status, file.additions, file.deletions), (DiffStatus::Modified, 1, 1))
            }
        }
    }
}
