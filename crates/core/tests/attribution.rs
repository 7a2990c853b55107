//! Attribution of changes to traced commands, case by case.

use turnstone_core::change::{
    Attribution, FileChange, FileMode, Oid, PathImage, PathTouch, PriorFile, TouchEffect, TreeLeaf,
    UncoveredReason, attribute_changes,
};
use turnstone_core::model::FileIdentity;
use turnstone_core::rel_path::RelPath;

/// When the window was opened.
const OPENED: i64 = 1_000;

fn path(text: &str) -> RelPath {
    text.parse().expect("a path")
}

fn file(content: u8) -> PathImage {
    let leaf = TreeLeaf { blob: Oid([content; 20]), mode: FileMode::File };
    PathImage::Present { leaf, perm: 0o644 }
}

fn change(name: &str, before: PathImage, after: PathImage) -> FileChange {
    FileChange { path: path(name), before, after }
}

fn edit(name: &str) -> FileChange {
    change(name, file(1), file(2))
}

/// A file that was last changed before the window, or in it.
fn prior(inode: u64, changed_nanos: i64) -> PriorFile {
    let identity = FileIdentity { device: 1, inode, born: Some(7) };
    PriorFile { identity, is_directory: false, changed_nanos }
}

fn touch(name: &str, effect: TouchEffect, prior: Option<PriorFile>) -> PathTouch {
    PathTouch { path: path(name), effect, prior }
}

/// A file that was there before the window is written.
fn write(name: &str, inode: u64) -> PathTouch {
    touch(name, TouchEffect::Written, Some(prior(inode, OPENED - 1)))
}

fn create(name: &str) -> PathTouch {
    touch(name, TouchEffect::Written, None)
}

fn move_to(from: &str, to: &str) -> [PathTouch; 2] {
    let old = PriorFile { is_directory: true, ..prior(99, OPENED - 1) };
    let from = path(from);
    [
        PathTouch { path: from.clone(), effect: TouchEffect::MovedAway, prior: Some(old) },
        touch(to, TouchEffect::MovedHere { from: Some(from) }, None),
    ]
}

/// Attributes changes; whatever has not changed was absent before.
fn attribute(changes: &[FileChange], touches: &[PathTouch]) -> Attribution {
    attribute_changes(changes.to_vec(), touches, OPENED, |_| PathImage::Absent)
}

fn own(found: &Attribution) -> Vec<String> {
    found.own.iter().map(|change| change.path.to_string()).collect()
}

fn names<'p>(paths: impl IntoIterator<Item = &'p RelPath>) -> Vec<String> {
    paths.into_iter().map(ToString::to_string).collect()
}

/// Proves R2.
#[test]
fn only_touched_changes_are_the_commands() {
    let found =
        attribute(&[edit("a"), edit("b")], &[write("a", 1), write("unchanged", 2), create("c")]);

    assert_eq!(own(&found), ["a"]);
    assert_eq!(names(&found.others), ["b"]);
    assert!(found.shared.is_empty());
}

/// Proves R3.
#[test]
fn change_before_the_first_touch_makes_a_path_shared() {
    let touches = [touch("a", TouchEffect::Written, Some(prior(1, OPENED + 5))), write("b", 2)];
    let found = attribute(&[edit("a"), edit("b")], &touches);

    assert_eq!(own(&found), ["a", "b"]);
    assert_eq!(names(&found.shared), ["a"]);
}

/// The command's own writes change the file, under whichever name.
#[test]
fn later_touches_of_a_known_file_do_not_make_it_shared() {
    let again = |name: &str| touch(name, TouchEffect::Written, Some(prior(1, OPENED + 5)));
    let found = attribute(
        &[edit("a"), edit("other-name")],
        &[write("a", 1), again("a"), again("other-name")],
    );

    assert!(found.shared.is_empty(), "{found:?}");
}

#[test]
fn directories_change_with_every_name_in_them_and_are_not_shared() {
    let changed = PriorFile { is_directory: true, ..prior(1, OPENED + 5) };
    let bits = |perm| PathImage::Directory { perm };
    let chmod = touch("d", TouchEffect::MetadataSet, Some(changed));
    let found = attribute(&[change("d", bits(0o755), bits(0o700))], &[chmod]);

    assert_eq!(own(&found), ["d"]);
    assert!(found.shared.is_empty());
}

/// Proves R3.
#[test]
fn end_that_the_touches_cannot_explain_is_shared() {
    let removed = touch("a", TouchEffect::Removed, Some(prior(1, 0)));
    let found = attribute(&[edit("a")], std::slice::from_ref(&removed));
    assert_eq!(names(&found.shared), ["a"], "somebody wrote it after the command removed it");

    let found = attribute(&[change("a", file(1), PathImage::Absent)], &[write("a", 1)]);
    assert_eq!(names(&found.shared), ["a"], "somebody removed what the command wrote");

    let chmod = touch("a", TouchEffect::MetadataSet, Some(prior(1, 0)));
    let found = attribute(&[edit("a")], &[chmod]);
    assert_eq!(names(&found.shared), ["a"], "the command changed only the mode");

    let found = attribute(&[edit("a")], &[create("a")]);
    assert_eq!(names(&found.shared), ["a"], "somebody had removed it before the command");

    let gone = change("a", file(1), PathImage::Absent);
    assert!(attribute(&[gone], &[removed]).shared.is_empty());
}

/// An executable file has another mode in trees, too.
#[test]
fn chmod_alone_explains_every_permission_bit() {
    let leaf = TreeLeaf { blob: Oid([1; 20]), mode: FileMode::Exec };
    let after = PathImage::Present { leaf, perm: 0o700 };
    let chmod = touch("a", TouchEffect::MetadataSet, Some(prior(1, 0)));
    let found = attribute(&[change("a", file(1), after)], &[chmod]);

    assert_eq!(own(&found), ["a"]);
    assert!(found.shared.is_empty(), "{found:?}");
}

#[test]
fn save_by_rename_is_the_commands() {
    let temporary = prior(5, OPENED + 1);
    let touches = [
        create("a.tmp"),
        touch("a.tmp", TouchEffect::MovedAway, Some(temporary)),
        touch("a", TouchEffect::MovedHere { from: Some(path("a.tmp")) }, Some(prior(1, 0))),
    ];
    let found = attribute(&[edit("a")], &touches);

    assert_eq!(own(&found), ["a"]);
    assert!(found.shared.is_empty(), "{found:?}");
}

#[test]
fn file_of_another_writer_that_the_command_moved_is_shared_in_both_places() {
    let saved = prior(1, OPENED + 1);
    let touches = [
        touch("a", TouchEffect::MovedAway, Some(saved)),
        touch("b", TouchEffect::MovedHere { from: Some(path("a")) }, None),
    ];
    let changes =
        [change("a", file(1), PathImage::Absent), change("b", PathImage::Absent, file(2))];
    let found = attribute(&changes, &touches);

    assert_eq!(names(&found.shared), ["a", "b"]);
}

#[test]
fn renamed_directory_takes_along_what_it_held() {
    let changes = [
        change("new/kept", PathImage::Absent, file(1)),
        change("new/edited-by-others", PathImage::Absent, file(9)),
        change("new/added-by-others", PathImage::Absent, file(9)),
        change("old/edited-by-others", file(2), PathImage::Absent),
        change("old/kept", file(1), PathImage::Absent),
        change("old/put-back-by-others", file(3), file(9)),
    ];
    let found = attribute(&changes, &move_to("old", "new"));

    assert_eq!(
        own(&found),
        ["new/kept", "old/edited-by-others", "old/kept", "old/put-back-by-others"]
    );
    assert_eq!(names(&found.shared), ["old/put-back-by-others"]);
    assert_eq!(names(&found.others), ["new/edited-by-others", "new/added-by-others"]);
}

#[test]
fn what_was_written_before_a_rename_is_found_below_the_new_name() {
    let mut touches = vec![create("old/made"), write("old/edited", 3)];
    touches.extend(move_to("old", "middle"));
    touches.extend(move_to("middle", "new"));
    let changes = [
        change("new/edited", PathImage::Absent, file(8)),
        change("new/made", PathImage::Absent, file(7)),
        change("new/untouched", PathImage::Absent, file(1)),
        change("old/edited", file(2), PathImage::Absent),
        change("old/untouched", file(1), PathImage::Absent),
    ];
    let found = attribute(&changes, &touches);

    assert_eq!(own(&found).len(), changes.len(), "{found:?}");
    assert!(found.shared.is_empty(), "{found:?}");
}

#[test]
fn directory_that_was_moved_and_moved_back_owns_nothing() {
    let mut touches = move_to("d", "aside").to_vec();
    touches.extend(move_to("aside", "d"));
    let found =
        attribute(&[edit("d/of-others"), change("d/x", file(1), PathImage::Absent)], &touches);

    assert_eq!(names(&found.others), ["d/of-others", "d/x"]);
}

#[test]
fn exchanged_directories_own_what_changed_places() {
    let with = |other: &str| TouchEffect::Exchanged { with: Some(path(other)) };
    let touches = [touch("a", with("b"), None), touch("b", with("a"), None)];
    let changes = [
        change("a/only", file(3), PathImage::Absent),
        change("a/x", file(1), file(2)),
        change("b/only", PathImage::Absent, file(3)),
        change("b/x", file(2), file(1)),
        change("b/y", file(4), file(9)),
    ];
    let found = attribute(&changes, &touches);

    assert_eq!(own(&found), ["a/only", "a/x", "b/only", "b/x"]);
    assert_eq!(names(&found.others), ["b/y"]);
}

#[test]
fn directory_from_outside_brings_everything_in_it() {
    let arrived = touch("d", TouchEffect::MovedHere { from: None }, None);
    let found = attribute(&[change("d/x", PathImage::Absent, file(1))], &[arrived]);

    assert_eq!(own(&found), ["d/x"]);
}

#[test]
fn uncovered_path_stands_for_everything_below_it() {
    let unknown = PathImage::Uncovered { reason: UncoveredReason::Ignored };
    let changes = [
        change("ignored", unknown, PathImage::Absent),
        change("large", unknown, unknown),
        change("nested", unknown, PathImage::Absent),
    ];
    let touches = [
        touch("ignored/deep/file", TouchEffect::Removed, Some(prior(1, 0))),
        touch("nested", TouchEffect::TouchedBelow, None),
    ];
    let found = attribute(&changes, &touches);

    assert_eq!(own(&found), ["ignored", "nested"]);
    assert_eq!(names(&found.others), ["large"]);
}
