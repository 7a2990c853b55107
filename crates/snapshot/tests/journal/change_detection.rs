//! Every change of files and folders is reported.

use std::os::unix::fs::symlink;

use turnstone_snapshot::{CaptureMode, JournalState, PinGroup, UncoveredReason};

use crate::fixture::{JournalFixture, NOW};

#[test]
fn unchanged_worktree_capture_scans_and_writes_nothing() {
    let site = JournalFixture::without_journal();
    site.write("a/b", "1");
    site.store.journal().start();
    let first = site.capture();

    let second = site.capture_by_journal("nothing");

    assert_eq!(second.capture.id, first.capture.id);
    assert!(!second.is_new && second.changed == 0 && second.files == 1);
    assert!(std::sync::Arc::ptr_eq(&first.capture.coverage, &second.capture.coverage));
}

#[test]
fn journal_reports_every_kind_of_change() {
    let site = JournalFixture::new();
    let check = |what: &str, changed: usize| {
        assert_eq!(site.capture_by_journal(what).changed, changed, "{what}")
    };
    site.write("a/b/c", "1");
    site.write("top", "t");
    check("new folders", 2);
    site.write("a/b/c", "2");
    check("same size, at once", 1);
    site.chmod("top", 0o755);
    check("may be run", 1);
    site.chmod("top", 0o600);
    check("bits", 1);
    fs_err::rename(site.at("a/b/c"), site.at("a/d")).unwrap();
    check("renamed", 2);
    fs_err::rename(site.at("a"), site.at("z")).unwrap();
    check("folder renamed", 2);
    site.write("z/d", "3");
    check("in the renamed folder", 1);
    fs_err::rename(site.at("z"), site.outside("z")).unwrap();
    check("moved away", 1);
    fs_err::write(site.outside("z/more"), "m").unwrap();
    check("nothing here", 0);
    fs_err::rename(site.outside("z"), site.at("back")).unwrap();
    check("moved in", 2);
    site.write("back/b/new", "n");
    check("in the folder moved in", 1);
    fs_err::remove_dir_all(site.at("back")).unwrap();
    site.write("back", "a file now");
    check("folder to file", 4);
    fs_err::remove_file(site.at("back")).unwrap();
    symlink("top", site.at("back")).unwrap();
    check("file to link", 1);
}

#[test]
fn swapped_folders_are_tracked_correctly() {
    let site = JournalFixture::new();
    for (name, text) in [("a/x", "1"), ("a/s/y", "2"), ("b/x", "3"), ("b/s/y", "4")] {
        site.write(name, text);
    }
    site.capture_by_journal("made");
    for round in 0..4 {
        let (here, there) = (site.at("a"), site.at("b"));
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            &here,
            rustix::fs::CWD,
            &there,
            rustix::fs::RenameFlags::EXCHANGE,
        )
        .unwrap();
        if round % 2 == 0 {
            site.capture_by_journal("changed places");
        }
        site.write("a/s/y", &format!("a{round}"));
        site.write("b/s/z", &format!("b{round}"));
        site.capture_by_journal("written after");
    }
}

#[test]
fn changed_ignore_rules_update_the_selection() {
    let site = JournalFixture::without_journal();
    site.git("", &["init", "-q"]);
    site.store.journal().start();
    site.capture();
    for name in ["a.log", "sub/a.log", "sub/deep/a.log", "keep"] {
        site.write(name, name);
    }
    assert_eq!(site.capture_by_journal("no rules").files, 4);
    site.write("sub/.gitignore", "*.log\n");
    assert_eq!(site.capture_by_journal("below").files, 3);
    site.write("sub/deep/.gitignore", "!a.log\n");
    assert_eq!(site.capture_by_journal("and back").files, 5);
    fs_err::write(site.at(".git/info/exclude"), "keep\n").unwrap();
    // At the root everything is looked at; below, only there.
    let captured = site.capture();
    assert_eq!((captured.mode, captured.journal), (CaptureMode::Walk, JournalState::On));
    site.assert_equals_walk(&captured, "exclude");
    let skipped = &captured.capture.coverage.skipped;
    let ignored = skipped.iter().filter(|(_, reason)| *reason == UncoveredReason::Ignored);
    assert_eq!(ignored.count(), 2);
    site.write(".gitignore", "sub/\n");
    let captured = site.capture();
    site.assert_equals_walk(&captured, "root");
    assert_eq!(captured.files, 2);
    site.git("", &["add", "-f", "sub/deep/a.log", "keep"]);
    let captured = site.capture_by_journal("tracked");
    assert_eq!(captured.files, 4);
    site.write("sub/deep/a.log", "seen, since it is tracked");
    assert_eq!(site.capture_by_journal("tracked and changed").changed, 1);
    site.git("", &["rm", "-q", "--cached", "-f", "sub/deep/a.log"]);
    assert_eq!(site.capture_by_journal("not tracked any more").files, 3);
}

/// Proves R7.
#[test]
fn new_nested_repository_is_captured_by_its_own_rules() {
    let site = JournalFixture::without_journal();
    site.git("", &["init", "-q"]);
    site.write(".gitignore", "vendor/\n");
    site.write("vendor/x", "x");
    site.write("plain/y", "y");
    site.store.journal().start();
    assert_eq!(site.capture().files, 2);
    site.write("vendor/y", "ignored, and not told");
    assert_eq!(site.capture_by_journal("ignored").changed, 0);

    for folder in ["vendor", "plain"] {
        site.git(folder, &["init", "-q"]);
        let captured = site.capture_by_journal(folder);
        assert!(captured.capture.coverage.nested.contains(&folder.parse().unwrap()));
    }
    site.write("vendor/z", "z");
    assert_eq!(site.capture_by_journal("inside").changed, 1);
    fs_err::remove_dir_all(site.at("vendor/.git")).unwrap();
    assert_eq!(site.capture_by_journal("and gone").files, 2);
}

/// Proves R1.
#[test]
fn forced_paths_in_ignored_folders_are_captured() {
    let site = JournalFixture::without_journal();
    site.git("", &["init", "-q"]);
    site.write(".gitignore", "out/\n");
    site.write("out/deep/file", "1");
    site.write("out/other", "o");
    site.store.journal().start();
    assert_eq!(site.capture().files, 1);
    let paths = ["out/deep/file", "out/later"].map(|text| text.parse().unwrap()).into();
    site.store.capture_named(&PinGroup::new("named"), &paths, true, NOW).unwrap();

    let captured = site.capture();
    assert_eq!((captured.mode, captured.files), (CaptureMode::Journal, 2));
    assert_eq!(captured.capture.coverage.absent, ["out/later".parse().unwrap()]);
    fs_err::write(site.at("out/deep/file"), "2").unwrap();
    fs_err::write(site.at("out/later"), "here").unwrap();
    let captured = site.capture();
    assert_eq!((captured.mode, captured.files, captured.changed), (CaptureMode::Journal, 3, 2));
    assert!(captured.capture.coverage.absent.is_empty());
    fs_err::remove_dir_all(site.at("out")).unwrap();
    let captured = site.capture();
    assert_eq!((captured.mode, captured.files, captured.changed), (CaptureMode::Journal, 1, 2));
    assert_eq!(captured.capture.coverage.absent.len(), 2);
}

/// Proves R1, R23.
#[test]
fn paths_forced_by_deleted_sessions_are_dropped_and_journal_stays_exact() {
    let site = JournalFixture::without_journal();
    site.git("", &["init", "-q"]);
    site.write(".gitignore", "out/\n");
    site.write("out/deep/file", "1");
    site.write("more/kept", "k");
    site.store.journal().start();
    let force = |group: &str, names: &[&str]| {
        let paths = names.iter().map(|name| name.parse().unwrap()).collect();
        site.store.capture_named(&PinGroup::new(group), &paths, true, NOW).unwrap();
    };
    let forced =
        || fs_err::read_to_string(site.root().with_file_name("store").join("forced.json")).unwrap();
    force("gone", &["out/deep/file", "out/absent"]);
    force("stays", &["out/stays"]);
    site.capture();

    site.store
        .expiry()
        .expire_deleted_groups(&["gone".to_owned(), "test".to_owned()].into())
        .unwrap();

    assert_eq!(forced(), r#"["out/stays"]"#);
    site.write("out/one", "1");
    site.write("out/two", "2");
    force("other", &["out/one", "out/two"]);
    let captured = site.capture();
    assert_eq!((captured.mode, captured.files), (CaptureMode::Journal, 4), "out/deep is ignored");
    assert_eq!(captured.capture.coverage.absent, ["out/stays".parse().unwrap()]);
    assert!(site.store.journal().audit(NOW).unwrap().missed.is_empty());
    site.store.expiry().expire_deleted_groups(&["other".to_owned()].into()).unwrap();
    assert_eq!(forced(), r#"["out/one","out/stays","out/two"]"#, "another capture holds them");
}

#[test]
fn changes_through_hard_links_are_captured() {
    let site = JournalFixture::new();
    site.write("a", "1");
    site.write("d/x", "x");
    fs_err::hard_link(site.at("a"), site.outside("a")).unwrap();
    site.capture_by_journal("linked outside");
    fs_err::write(site.outside("a"), "2").unwrap();
    site.capture_by_journal("written outside");
    fs_err::hard_link(site.at("d/x"), site.at("d/y")).unwrap();
    site.capture_by_journal("linked inside");
    fs_err::write(site.at("d/y"), "both").unwrap();
    assert_eq!(site.capture_by_journal("written inside").changed, 2);
    // A name that was one of several becomes one of several of another file.
    site.write("third", "3");
    site.capture_by_journal("third");
    fs_err::remove_file(site.at("d/y")).unwrap();
    fs_err::hard_link(site.at("third"), site.at("d/y")).unwrap();
    site.capture_by_journal("linked again");
    fs_err::write(site.at("d/y"), "both again").unwrap();
    assert_eq!(site.capture_by_journal("written again").changed, 2);
}

#[test]
fn journal_reports_changes_made_by_a_restore() {
    let site = JournalFixture::new();
    site.write("a", "1");
    site.write("d/gone", "g");
    let before = site.capture_by_journal("before").capture;
    site.write("a", "2");
    site.write("new/file", "n");
    fs_err::remove_dir_all(site.at("d")).unwrap();
    let after = site.capture_by_journal("after").capture;

    let plan = site.store.planner().plan_restore(&before, &after, None, false).unwrap();
    site.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).unwrap();

    assert_eq!(site.capture_by_journal("restored").capture.tree, before.tree);
}

#[test]
fn reopened_store_walks_once_then_uses_the_journal() {
    let mut site = JournalFixture::new();
    site.write("a", "1");
    site.capture_by_journal("before");
    drop(std::mem::replace(&mut site.store, crate::fixture::open_store(site.dir.path(), "spare")));
    site.write("b", "while no watch was open");
    site.store = crate::fixture::open_store(site.dir.path(), "store");
    assert_eq!(site.capture().journal, JournalState::Off);
    site.store.journal().start();
    assert_eq!(site.capture().journal, JournalState::Starting);
    site.write("c", "c");
    site.capture_by_journal("after");
}

#[test]
fn gc_forces_a_walk_only_if_needed_objects_were_dropped() {
    let site = JournalFixture::new();
    site.write("a", "1");
    site.store.capture(&PinGroup::new("other"), NOW).unwrap();
    site.write("a", "2");
    let kept = site.capture_by_journal("kept").capture;
    let later = NOW.plus(7_200_000);
    site.store.collector().gc(&[PinGroup::new("test")].into(), later, false).unwrap();
    assert_eq!(site.capture_by_journal("nothing needed went").capture.id, kept.id);

    site.store.collector().gc(&[PinGroup::new("none")].into(), later, false).unwrap();
    let captured = site.capture();
    assert_eq!((captured.mode, captured.is_new), (CaptureMode::Walk, true));
    site.assert_equals_walk(&captured, "made again");
    assert!(site.store.captures().get(&captured.capture.id).is_ok());
    site.write("b", "b");
    site.capture_by_journal("and on");
}
