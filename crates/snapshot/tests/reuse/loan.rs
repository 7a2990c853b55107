//! The loan: what it lends, that it loses nothing, and how it ends.

use turnstone_snapshot::{Captured, Group, Image};

use crate::checkout::{
    ALL, FILES, TIMES, assert_raw, assert_reused, checkout_of, commit, committed, damage,
    everything, exchange, nothing_set, pass_time,
};
use crate::support::{Case, NOW, path};

#[test]
fn a_committed_checkout_is_captured_without_reading_it_r10() {
    let case = committed();
    case.write("untracked", "new\n");

    let captured = assert_reused(&case, ALL);

    assert_eq!(captured.capture.tree.to_string(), case.oracle());
    assert_eq!((captured.files, captured.changed), (ALL + 1, ALL + 1));
    assert!(case.shadow.usage().unwrap().lent > 0);
    case.git(&["fsck", "--connectivity-only"]);
    assert_eq!(case.capture().capture.id, captured.capture.id);
}

#[test]
fn nothing_below_the_users_git_directory_is_written_r10() {
    let case = committed();
    let before = everything(&case.at(".git"));

    case.capture();
    case.write("a.txt", "changed\n");
    case.capture();
    case.shadow.settle().unwrap();
    case.shadow.gc(&[].into(), NOW, false).unwrap();

    assert!(before == everything(&case.at(".git")));
}

#[test]
fn a_user_who_deletes_his_repository_takes_nothing_away_r10() {
    for settle in [false, true] {
        let mut case = committed();
        let captured = assert_reused(&case, ALL);
        assert!(!case.shadow.git_dir().join("objects/info/alternates").exists());
        fs_err::remove_dir_all(case.at(".git")).unwrap();
        FILES.iter().for_each(|(path, _)| case.remove(path));
        if settle {
            let settled = case.shadow.settle().unwrap();
            assert_eq!((settled.returned, settled.lost.len()), (1, 0));
            assert_eq!(case.shadow.usage().unwrap().lent, 0);
        }
        case.reopen();
        case.git(&["fsck", "--full"]);
        let now = case.capture().capture;
        let then = case.shadow.get_capture(&captured.capture.id).unwrap();
        let plan = case.shadow.plan_restore(&then, &now, None, false).unwrap();
        case.shadow.apply(&plan, &Group::new("guard"), NOW).unwrap();
        for (path, text) in FILES {
            assert_eq!(case.read(path), text.repeat(TIMES));
        }
    }
}

#[test]
fn the_loan_ends_with_objects_of_our_own_and_no_others_r10() {
    let case = checkout_of(nothing_set());
    case.write("old", "in the history only\n".repeat(20));
    commit(&case, &[]);
    let old = case.git_in(&case.root(), &["rev-parse", "HEAD:old"]);
    case.remove("old");
    commit(&case, &[]);
    assert_reused(&case, ALL);
    case.git(&["cat-file", "-e", &old]);

    let settled = case.shadow.settle().unwrap();

    // The files, their three trees; the commit is ours already.
    assert_eq!((settled.copied, settled.repaired, settled.returned), (ALL + 3, 0, 1));
    assert!(case.git(&["cat-file", "--batch-check", "--batch-all-objects"]).find(&old).is_none());
    case.git(&["fsck", "--full", "--strict"]);
    let again = case.capture();
    assert!(!again.is_new && again.reused == 0);
    assert_eq!(case.shadow.settle().unwrap(), turnstone_snapshot::Settled::default());
}

#[test]
fn a_lent_pack_is_settled_by_a_collection_and_never_merged_as_it_is_r10() {
    let case = committed();
    let first = case.capture().capture;
    case.write("a.txt", "two\n");
    case.capture();
    case.write("a.txt", "three\n");
    let last = case.capture().capture;

    case.shadow.merge_packs().unwrap();
    let usage = case.shadow.usage().unwrap();
    assert!(usage.lent > 0 && usage.packs == 2);
    let planned = case.shadow.gc(&[].into(), NOW, true).unwrap();
    assert_eq!(planned.dropped_objects, 0);
    assert!(case.shadow.usage().unwrap().lent > 0, "a dry run changes nothing");
    case.shadow.gc(&[].into(), NOW, false).unwrap();

    assert_eq!(case.shadow.usage().unwrap().lent, 0);
    case.git(&["fsck", "--full", "--strict"]);
    for capture in [first, last] {
        let image = case.shadow.image(&capture, &path("sub/c.txt")).unwrap();
        assert!(matches!(image, Image::Present { .. }));
    }
}

#[test]
fn a_capture_made_while_a_loan_is_settled_keeps_what_it_relies_on() {
    let case = checkout_of(nothing_set());
    case.write("b.txt", "an older text that the pack still holds\n");
    commit(&case, &[]);
    case.write("b.txt", "a newer text\n");
    commit(&case, &[]);
    assert_reused(&case, ALL);
    // Known to the loan, but to no capture before.
    case.write("b.txt", "an older text that the pack still holds\n");
    let older = case.capture();
    case.shadow.settle().unwrap();
    fs_err::remove_dir_all(case.at(".git")).unwrap();

    assert_raw(&case, &older);
    case.git(&["fsck", "--full"]);
}

#[test]
fn a_damaged_object_of_the_user_is_never_served_and_is_made_anew_from_the_file_r10() {
    let case = committed();
    damage(&case, "sub/c.txt");
    let captured = case.capture();
    assert_eq!(captured.reused, ALL, "headers do not tell");
    let file = case.at("sub/c.txt");
    fs_err::rename(&file, case.at("moved")).unwrap();
    let now = case.capture().capture;
    let then = &captured.capture;
    let restored = case
        .shadow
        .plan_restore(then, &now, None, false)
        .and_then(|plan| case.shadow.apply(&plan, &Group::new("guard"), NOW));
    assert!(restored.is_err() || !file.exists(), "wrong bytes were written");
    fs_err::rename(case.at("moved"), &file).unwrap();
    case.capture();

    let settled = case.shadow.settle().unwrap();

    assert_eq!((settled.repaired, settled.lost.len()), (1, 0));
    assert_raw(&case, &captured);
    case.git(&["fsck", "--full"]);
}

#[test]
fn an_object_with_sound_but_wrong_bytes_is_never_served_r10() {
    let case = checkout_of(nothing_set());
    let (one, other) = ("0123456789\n".repeat(TIMES), "abcdefghij\n".repeat(TIMES));
    case.write("one", &one);
    case.write("other", &other);
    commit(&case, &[]);
    exchange(&case, "one", "other");
    let captured = case.capture();
    assert_eq!(captured.reused, ALL + 2, "kind and size do not tell");
    case.remove("one");
    let now = case.capture().capture;
    let then = &captured.capture;
    let options = turnstone_snapshot::DiffOptions::default();
    assert!(case.shadow.diff(then, &now, &options).is_err(), "wrong bytes were shown");
    let plan = case.shadow.plan_restore(then, &now, None, false);
    let restored = plan.and_then(|plan| case.shadow.apply(&plan, &Group::new("guard"), NOW));
    assert!(restored.is_err() || !case.at("one").exists(), "wrong bytes were written");
    case.write("one", &one);
    case.capture();

    let settled = case.shadow.settle().unwrap();

    assert_eq!((settled.repaired, settled.lost.len()), (2, 0));
    assert_raw(&case, &captured);
}

#[test]
fn a_damaged_object_whose_file_is_gone_is_said_to_be_lost_r10() {
    let case = committed();
    damage(&case, "sub/c.txt");
    let captured = case.capture();
    case.write("sub/c.txt", "other bytes\n");
    let later = case.capture();

    let settled = case.shadow.settle().unwrap();

    assert_eq!(settled.lost.len(), 1);
    assert_eq!(settled.returned, 1);
    let options = turnstone_snapshot::DiffOptions::default();
    assert!(case.shadow.diff(&captured.capture, &later.capture, &options).is_err());
    assert_raw(&case, &later);
    // What is left of the store works on: captures, collections.
    case.write("more", "more\n");
    case.shadow.capture(&Group::new("other"), NOW).unwrap();
    let live = [Group::new("test")].into();
    let report = case.shadow.gc(&live, NOW.plus(7_200_000), false).unwrap();
    assert_eq!(report.dropped_groups, ["other"]);
    assert_raw(&case, &later);
}

#[test]
fn loose_objects_are_not_lent_but_their_files_read_r10() {
    let case = checkout_of(nothing_set());
    commit(&case, &[]);
    pass_time();
    case.write("later", "not packed\n");
    pass_time();
    case.git_in(&case.root(), &["add", "later"]);

    assert_reused(&case, ALL);
}

#[test]
fn a_pack_much_larger_than_the_checkout_is_not_lent_r10() {
    let case = checkout_of(nothing_set());
    let noise: Vec<u8> =
        (0_u32..40_000).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    case.write("large", noise);
    commit(&case, &[]);
    case.remove("large");
    commit(&case, &[]);

    assert_reused(&case, 0);
    assert_eq!(case.shadow.usage().unwrap().lent, 0);
}

#[test]
fn nested_repositories_lend_for_their_own_files_r10() {
    let case = checkout_of(nothing_set());
    case.write("inner/x.txt", "inside\n".repeat(400));
    let inner = case.at("inner");
    pass_time();
    case.git_in(&inner, &["init", "-q"]);
    case.git_in(&inner, &["add", "."]);
    case.git_in(&inner, &["commit", "-q", "-m", "x"]);
    case.git_in(&inner, &["repack", "-a", "-d", "-q"]);
    commit(&case, &["-c", "advice.addEmbeddedRepo=false"]);

    let captured = assert_reused(&case, ALL + 1);
    assert!(case.paths(&captured).contains(&"inner/x.txt".to_owned()));
    case.shadow.settle().unwrap();
    assert_raw(&case, &captured);
}

#[test]
fn the_mode_is_that_of_the_file_not_of_the_index() {
    let case = checkout_of(nothing_set());
    case.git_in(&case.root(), &["config", "core.fileMode", "false"]);
    case.chmod("a.txt", 0o755);
    case.link("link", "a.txt");
    commit(&case, &[]);

    let captured = assert_reused_links(&case);
    let text = case.git(&["ls-tree", &captured.capture.tree.to_string(), "a.txt"]);
    assert!(text.starts_with("100755"), "{text}");
}

fn assert_reused_links(case: &Case) -> Captured {
    let captured = case.capture();
    assert_eq!(captured.reused, ALL + 1);
    assert_eq!(captured.capture.tree.to_string(), case.oracle());
    captured
}
