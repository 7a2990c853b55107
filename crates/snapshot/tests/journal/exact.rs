//! What happens to files and folders is told, whatever it is.

use std::os::unix::fs::symlink;

use turnstone_snapshot::{Group, JournalState, Mode, Reason};

use crate::site::{NOW, Site};

#[test]
fn a_capture_of_what_did_not_change_looks_at_nothing_and_writes_nothing() {
    let site = Site::quiet();
    site.write("a/b", "1");
    site.shadow.watch();
    let first = site.capture();

    let second = site.told("nothing");

    assert_eq!(second.capture.id, first.capture.id);
    assert!(!second.is_new && second.changed == 0 && second.files == 1);
    assert!(std::sync::Arc::ptr_eq(&first.capture.coverage, &second.capture.coverage));
}

#[test]
fn every_kind_of_change_is_told() {
    let site = Site::new();
    let check = |what: &str, changed: usize| assert_eq!(site.told(what).changed, changed, "{what}");
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
fn folders_that_change_places_are_told_apart() {
    let site = Site::new();
    for (name, text) in [("a/x", "1"), ("a/s/y", "2"), ("b/x", "3"), ("b/s/y", "4")] {
        site.write(name, text);
    }
    site.told("made");
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
            site.told("changed places");
        }
        site.write("a/s/y", &format!("a{round}"));
        site.write("b/s/z", &format!("b{round}"));
        site.told("written after");
    }
}

#[test]
fn rules_that_change_select_anew() {
    let site = Site::quiet();
    site.git("", &["init", "-q"]);
    site.shadow.watch();
    site.capture();
    for name in ["a.log", "sub/a.log", "sub/deep/a.log", "keep"] {
        site.write(name, name);
    }
    assert_eq!(site.told("no rules").files, 4);
    site.write("sub/.gitignore", "*.log\n");
    assert_eq!(site.told("below").files, 3);
    site.write("sub/deep/.gitignore", "!a.log\n");
    assert_eq!(site.told("and back").files, 5);
    fs_err::write(site.at(".git/info/exclude"), "keep\n").unwrap();
    // At the root everything is looked at; below, only there.
    let captured = site.capture();
    assert_eq!((captured.mode, captured.journal), (Mode::Walk, JournalState::On));
    site.same(&captured, "exclude");
    assert_eq!(captured.capture.coverage.count(Reason::Ignored), 2);
    site.write(".gitignore", "sub/\n");
    let captured = site.capture();
    site.same(&captured, "root");
    assert_eq!(captured.files, 2);
    site.git("", &["add", "-f", "sub/deep/a.log", "keep"]);
    let captured = site.told("tracked");
    assert_eq!(captured.files, 4);
    site.write("sub/deep/a.log", "seen, since it is tracked");
    assert_eq!(site.told("tracked and changed").changed, 1);
    site.git("", &["rm", "-q", "--cached", "-f", "sub/deep/a.log"]);
    assert_eq!(site.told("not tracked any more").files, 3);
}

#[test]
fn a_repository_that_appears_is_content_by_its_own_rules_r7() {
    let site = Site::quiet();
    site.git("", &["init", "-q"]);
    site.write(".gitignore", "vendor/\n");
    site.write("vendor/x", "x");
    site.write("plain/y", "y");
    site.shadow.watch();
    assert_eq!(site.capture().files, 2);
    site.write("vendor/y", "ignored, and not told");
    assert_eq!(site.told("ignored").changed, 0);

    for folder in ["vendor", "plain"] {
        site.git(folder, &["init", "-q"]);
        let captured = site.told(folder);
        assert!(captured.capture.coverage.nested.contains(&folder.parse().unwrap()));
    }
    site.write("vendor/z", "z");
    assert_eq!(site.told("inside").changed, 1);
    fs_err::remove_dir_all(site.at("vendor/.git")).unwrap();
    assert_eq!(site.told("and gone").files, 2);
}

#[test]
fn forced_paths_are_seen_in_ignored_folders_r1() {
    let site = Site::quiet();
    site.git("", &["init", "-q"]);
    site.write(".gitignore", "out/\n");
    site.write("out/deep/file", "1");
    site.write("out/other", "o");
    site.shadow.watch();
    assert_eq!(site.capture().files, 1);
    let paths = ["out/deep/file", "out/later"].map(|text| text.parse().unwrap()).into();
    site.shadow.capture_named(&Group::new("named"), &paths, true, NOW).unwrap();

    let captured = site.capture();
    assert_eq!((captured.mode, captured.files), (Mode::Journal, 2));
    assert_eq!(captured.capture.coverage.absent, ["out/later".parse().unwrap()]);
    fs_err::write(site.at("out/deep/file"), "2").unwrap();
    fs_err::write(site.at("out/later"), "here").unwrap();
    let captured = site.capture();
    assert_eq!((captured.mode, captured.files, captured.changed), (Mode::Journal, 3, 2));
    assert!(captured.capture.coverage.absent.is_empty());
    fs_err::remove_dir_all(site.at("out")).unwrap();
    let captured = site.capture();
    assert_eq!((captured.mode, captured.files, captured.changed), (Mode::Journal, 1, 2));
    assert_eq!(captured.capture.coverage.absent.len(), 2);
}

#[test]
fn a_second_name_of_a_file_is_no_way_around_the_journal() {
    let site = Site::new();
    site.write("a", "1");
    site.write("d/x", "x");
    fs_err::hard_link(site.at("a"), site.outside("a")).unwrap();
    site.told("linked outside");
    fs_err::write(site.outside("a"), "2").unwrap();
    site.told("written outside");
    fs_err::hard_link(site.at("d/x"), site.at("d/y")).unwrap();
    site.told("linked inside");
    fs_err::write(site.at("d/y"), "both").unwrap();
    assert_eq!(site.told("written inside").changed, 2);
    // A name that was one of several becomes one of several of another file.
    site.write("third", "3");
    site.told("third");
    fs_err::remove_file(site.at("d/y")).unwrap();
    fs_err::hard_link(site.at("third"), site.at("d/y")).unwrap();
    site.told("linked anew");
    fs_err::write(site.at("d/y"), "both again").unwrap();
    assert_eq!(site.told("written anew").changed, 2);
}

#[test]
fn what_a_restore_writes_is_told() {
    let site = Site::new();
    site.write("a", "1");
    site.write("d/gone", "g");
    let before = site.told("before").capture;
    site.write("a", "2");
    site.write("new/file", "n");
    fs_err::remove_dir_all(site.at("d")).unwrap();
    let after = site.told("after").capture;

    let plan = site.shadow.plan_restore(&before, &after, None, false).unwrap();
    site.shadow.apply(&plan, &Group::new("guard"), NOW).unwrap();

    assert_eq!(site.told("restored").capture.tree, before.tree);
}

#[test]
fn a_store_opened_again_walks_and_then_listens() {
    let mut site = Site::new();
    site.write("a", "1");
    site.told("before");
    drop(std::mem::replace(&mut site.shadow, crate::site::open(site.dir.path(), "spare")));
    site.write("b", "while nobody listened");
    site.shadow = crate::site::open(site.dir.path(), "store");
    assert_eq!(site.capture().journal, JournalState::Off);
    site.shadow.watch();
    assert_eq!(site.capture().journal, JournalState::Starting);
    site.write("c", "c");
    site.told("after");
}

#[test]
fn collecting_garbage_costs_no_walk_unless_something_went_that_is_needed() {
    let site = Site::new();
    site.write("a", "1");
    site.shadow.capture(&Group::new("other"), NOW).unwrap();
    site.write("a", "2");
    let kept = site.told("kept").capture;
    let later = NOW.plus(7_200_000);
    site.shadow.gc(&[Group::new("test")].into(), later, false).unwrap();
    assert_eq!(site.told("nothing needed went").capture.id, kept.id);

    site.shadow.gc(&[Group::new("none")].into(), later, false).unwrap();
    let captured = site.capture();
    assert_eq!((captured.mode, captured.is_new), (Mode::Walk, true));
    site.same(&captured, "made again");
    assert!(site.shadow.get_capture(&captured.capture.id).is_ok());
    site.write("b", "b");
    site.told("and on");
}
