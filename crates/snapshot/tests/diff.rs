//! Differences: right counts, patches that git takes, and bounds.

#[expect(dead_code, reason = "shared by several test programs")]
#[cfg(test)]
mod support;

use support::{Case, path};
use turnstone_snapshot::{Diff, DiffOptions, Patch, Status};

fn diff(case: &Case, edit: impl FnOnce()) -> Diff {
    let before = case.capture().capture;
    edit();
    let after = case.capture().capture;
    case.shadow.diff(&before, &after, &DiffOptions::default()).expect("both captures are readable")
}

fn rows(diff: &Diff) -> Vec<(String, Status, usize, usize)> {
    let row = |file: &turnstone_snapshot::FileDiff| {
        (file.path.to_string(), file.status, file.additions, file.deletions)
    };
    diff.files.iter().map(row).collect()
}

#[test]
fn status_and_lines_are_counted() {
    let case = Case::new();
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
            ("binary".to_owned(), Status::Added, 0, 0),
            ("gone".to_owned(), Status::Deleted, 0, 1),
            ("grow".to_owned(), Status::Modified, 2, 0),
            ("kind".to_owned(), Status::Type, 1, 1),
            ("new/file".to_owned(), Status::Added, 3, 0),
        ]
    );
    assert_eq!(diff.files[0].patch, Patch::Binary);
}

#[test]
fn a_move_is_a_deletion_and_an_addition_w3() {
    let case = Case::new();
    case.write("old", "content\n");
    let diff = diff(&case, || fs_err::rename(case.at("old"), case.at("new")).unwrap());

    let found: Vec<_> = diff.files.iter().map(|file| (file.path.clone(), file.status)).collect();
    assert_eq!(found, [(path("new"), Status::Added), (path("old"), Status::Deleted)]);
}

#[test]
fn patches_apply_with_git_apply() {
    let case = Case::new();
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
        let diff = case.shadow.diff(&before, &after, &options).unwrap();
        let file = case.dir.path().join("patch");
        fs_err::write(&file, diff.patch()).unwrap();
        let text = file.to_str().unwrap();
        case.git(&["read-tree", &before.tree.to_string()]);
        case.git(&["apply", "--cached", "--unidiff-zero", text]);
        assert_eq!(case.git(&["write-tree"]), after.tree.to_string(), "{context}");
    }
}

#[test]
fn a_file_of_two_hundred_thousand_changed_lines_does_not_stall_w19() {
    let case = Case::new();
    let text = |word: &str| -> String { (0..200_000).map(|n| format!("{word} {n}\n")).collect() };
    case.write("big", text("old"));
    let diff = diff(&case, || case.write("big", text("new")));

    let file = &diff.files[0];
    assert_eq!((file.additions, file.deletions), (200_000, 200_000));
    assert_eq!(file.patch, Patch::TooLarge);
    let before = case.capture().capture;
    case.write("big", text("newer"));
    let after = case.capture().capture;
    let small = DiffOptions { max_file_bytes: 1000, ..DiffOptions::default() };
    let diff = case.shadow.diff(&before, &after, &small).unwrap();
    assert_eq!((diff.files[0].additions, &diff.files[0].patch), (0, &Patch::TooLarge));
}

#[test]
fn an_unknown_tree_is_an_error_and_not_an_empty_difference_w1() {
    let case = Case::new();
    case.write("a", "1");
    let good = case.capture().capture;
    let mut bad = good.clone();
    bad.tree = "0123456789012345678901234567890123456789".parse().unwrap();

    assert!(case.shadow.diff(&bad, &good, &DiffOptions::default()).is_err());
    assert!(case.shadow.image(&bad, &path("a")).is_err());
}
