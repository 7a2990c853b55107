//! `diffFull`: rows, counts and texts.

use turnstone_snapshot::{Diff, DiffOptions, FileDiff, Patch, Status};

use crate::session::{bootstrap, track};
use crate::support::Case;

fn between(case: &Case, edit: impl FnOnce()) -> Diff {
    let before = track(&case.shadow);
    edit();
    let after = track(&case.shadow);
    case.shadow.diff(&before, &after, &DiffOptions::default()).expect("compared")
}

fn row(file: &FileDiff) -> (String, Status, usize, usize) {
    (file.path.to_string(), file.status, file.additions, file.deletions)
}

fn text(file: &FileDiff) -> String {
    match &file.patch {
        Patch::Text(text) => String::from_utf8(text.clone()).expect("text"),
        Patch::Binary | Patch::TooLarge => String::new(),
    }
}

/// 8.1.42, 43, 46, 47, 48, 49, 50, 53.
#[test]
fn rows_have_status_exact_counts_and_the_changed_lines() {
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
        ("gone1", Status::Deleted, 0, 1),
        ("gone3", Status::Deleted, 0, 3),
        ("grow", Status::Modified, 1, 0),
        ("modify", Status::Modified, 1, 1),
        ("new1", Status::Added, 1, 0),
        ("new3", Status::Added, 3, 0),
        ("shrink", Status::Modified, 0, 2),
        ("space", Status::Modified, 1, 1),
    ];
    assert_eq!(rows, want.map(|(name, status, more, less)| (name.to_owned(), status, more, less)));
    assert!(text(&diff.files[0]).contains("\n-x"));
    let modified = text(&diff.files[3]);
    assert!(modified.contains("\n-old line\n+new line\n"), "{modified}");
    assert!(text(&diff.files[4]).contains("\n+new content"));
}

/// 8.1.51, 52.
#[test]
fn no_change_is_no_row_and_a_binary_file_has_no_text() {
    let case = bootstrap();
    assert!(between(&case, || {}).files.is_empty());

    let diff = between(&case, || case.write("bin", [0, 1, 2]));

    assert_eq!(diff.files.len(), 1);
    assert_eq!((&diff.files[0].patch, text(&diff.files[0]).len()), (&Patch::Binary, 0));
}

/// 8.1.44, 45.
#[test]
fn more_than_a_hundred_rows_keep_gits_order_and_their_texts() {
    let case = bootstrap();
    for index in 0..26 {
        case.write(&format!("{index:02}-modified"), format!("старый {index}\n"));
        case.write(&format!("{index:02}-deleted"), format!("удалён {index}\n"));
        case.write(&format!("{index:02}-binary"), [0, 1, index]);
    }
    for index in 0..101 {
        case.write(&format!("z{index:03}"), "old\n");
    }
    let before = track(&case.shadow);
    for index in 0..26 {
        case.write(&format!("{index:02}-modified"), format!("новый 文 {index}\n"));
        case.remove(&format!("{index:02}-deleted"));
        case.write(&format!("{index:02}-added"), format!("добавлен {index}\n"));
        case.write(&format!("{index:02}-binary"), [0, 2, index]);
    }
    for index in 0..101 {
        case.write(&format!("z{index:03}"), "new\n");
    }
    let after = track(&case.shadow);

    let diff = case.shadow.diff(&before, &after, &DiffOptions::default()).unwrap();

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
                assert_eq!(row(file), (name.clone(), Status::Modified, 0, 0));
                assert_eq!(text(file), "");
            }
            Some(_) => assert!(text(file).contains(&format!("+новый 文 {number}\n"))),
            None => assert_eq!((status, file.additions, file.deletions), (Status::Modified, 1, 1)),
        }
    }
}
