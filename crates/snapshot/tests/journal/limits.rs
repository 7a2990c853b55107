//! Where the journal cannot be had or was wrong: captures walk, are right, and say why.

use turnstone_snapshot::{Group, JournalState, Mode};

use crate::site::{NOW, Site};

#[test]
fn more_events_than_the_kernel_keeps_make_one_walk() {
    let site = Site::new();
    site.write("d/a", "1");
    let scenario = fail::FailScenario::setup();
    fail::cfg("snapshot::queue_overflow", "return").unwrap();
    site.write("d/b", "2");
    let captured = site.capture();
    assert_eq!((captured.mode, captured.journal), (Mode::Walk, JournalState::Overflow));
    site.same(&captured, "overflow");
    scenario.teardown();
    // The failpoint may have struck the new watch too; then it was renewed once more.
    site.capture();
    site.write("d/e/c", "3");
    site.told("and on");
}

#[test]
fn without_watches_left_captures_walk_and_say_so() {
    let site = Site::quiet();
    for index in 0..10 {
        site.write(&format!("d{index}/a"), "1");
    }
    let scenario = fail::FailScenario::setup();
    fail::cfg("snapshot::watch_limit", "5*off->return").unwrap();
    site.shadow.watch();
    for round in 0..3 {
        site.write("d3/a", &format!("{round}"));
        let captured = site.capture();
        assert_eq!((captured.mode, captured.journal), (Mode::Walk, JournalState::WatchLimit));
        site.same(&captured, "limit");
    }
    assert_eq!(site.shadow.journal().watched, 0);
    scenario.teardown();
    assert_eq!(site.shadow.watch().state, JournalState::Starting);
    site.capture();
    site.write("d3/a", "again");
    site.told("and on");
}

/// What a failed capture read is in no pack; the next one must not take it for stored.
#[test]
fn after_a_capture_that_failed_everything_is_looked_at_and_nothing_is_missing() {
    let site = Site::new();
    site.write("d/a", "1");
    site.told("before");
    let scenario = fail::FailScenario::setup();
    for point in ["snapshot::walked", "snapshot::pack_synced", "snapshot::ref_synced"] {
        fail::cfg(point, "return").unwrap();
        site.write("d/b", point);
        site.write(&format!("new {point}/c"), point);
        assert!(site.shadow.capture(&Group::new("test"), NOW).is_err(), "{point}");
        fail::cfg(point, "off").unwrap();
        let captured = site.capture();
        assert_eq!((captured.mode, captured.journal), (Mode::Walk, JournalState::On), "{point}");
        site.same(&captured, point);
        site.fsck();
        site.write("d/b", "and on");
        site.told(point);
    }
    scenario.teardown();
}

#[test]
fn a_root_that_was_replaced_is_an_error_and_one_that_came_back_is_walked() {
    let site = Site::new();
    site.write("a", "1");
    site.told("before");
    let away = site.outside("work");
    fs_err::rename(site.root(), &away).unwrap();
    fs_err::create_dir(site.root()).unwrap();
    assert!(site.shadow.capture(&Group::new("test"), NOW).is_err());
    fs_err::remove_dir(site.root()).unwrap();
    fs_err::write(away.join("b"), "written while away").unwrap();
    fs_err::rename(&away, site.root()).unwrap();

    let captured = site.capture();
    assert_eq!(captured.mode, Mode::Walk);
    site.same(&captured, "back");
    site.write("c", "3");
    site.told("and on");
}

/// A name outside that was made after the capture: neither it nor the write through it is told.
#[test]
fn a_change_nobody_told_of_is_found_by_the_audit_and_ends_the_trust_r8() {
    let site = Site::new();
    site.write("a", "1");
    site.write("b", "1");
    site.told("before");
    assert!(site.shadow.audit(NOW).unwrap().missed.is_empty());
    fs_err::hard_link(site.at("a"), site.outside("a")).unwrap();
    fs_err::write(site.outside("a"), "changed unseen").unwrap();
    site.write("b", "not yet told, but noted");

    let audit = site.shadow.audit(NOW).unwrap();

    assert_eq!(audit.missed, ["a".parse().unwrap()]);
    let status = site.shadow.journal();
    assert_eq!((status.state, status.missed), (JournalState::Distrusted, 1));
    assert_eq!(site.shadow.watch().state, JournalState::Distrusted);
    let captured = site.capture();
    assert_eq!((captured.mode, captured.journal), (Mode::Walk, JournalState::Distrusted));
    site.same(&captured, "walked");
}

#[test]
fn there_is_nothing_to_audit_before_the_journal_has_begun() {
    let site = Site::quiet();
    site.write("a", "1");
    site.capture();
    site.write("a", "2");
    assert_eq!(site.shadow.audit(NOW).unwrap().files, 0);
    site.shadow.watch();
    assert_eq!(site.shadow.audit(NOW).unwrap().files, 0);
    assert_eq!(site.shadow.journal().state, JournalState::Starting);
}

#[test]
fn an_audit_is_due_after_ten_minutes_of_captures_r8() {
    let site = Site::new();
    let minutes = |count: i64| NOW.plus(count * 60_000);
    assert!(!site.shadow.is_audit_due(minutes(11)), "nothing relied on the journal");
    site.told("activity");
    assert!(!site.shadow.is_audit_due(minutes(9)));
    assert!(site.shadow.is_audit_due(minutes(10)));
    site.shadow.audit(minutes(10)).unwrap();
    assert!(!site.shadow.is_audit_due(minutes(30)));
    assert_eq!(site.shadow.journal().audits, 1);
}

/// The stat of a file changes without its bytes when it gets a second name: that is no miss.
#[test]
fn an_audit_beside_a_busy_writer_finds_nothing_missed() {
    let site = Site::new();
    site.write("linked", "same");
    site.told("before");
    fs_err::hard_link(site.at("linked"), site.outside("linked")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_usize;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                round += 1;
                site.write(&format!("d{}/f{}", round % 5, round % 11), &"x".repeat(round % 900));
                fs_err::remove_dir_all(site.at(&format!("d{}", (round * 3) % 5))).ok();
            }
        });
        for _ in 0..30 {
            let audit = site.shadow.audit(NOW).unwrap();
            assert!(audit.missed.is_empty(), "{:?}", audit.missed);
            site.capture();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    site.told("after");
}
