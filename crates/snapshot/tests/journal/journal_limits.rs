//! Where the journal cannot be had or was wrong: captures walk, are right, and say why.

use turnstone_snapshot::{CaptureMode, JournalState, PinGroup};

use crate::fixture::{JournalFixture, NOW};

#[test]
fn event_queue_overflow_causes_one_full_walk() {
    let site = JournalFixture::new();
    site.write("d/a", "1");
    let scenario = fail::FailScenario::setup();
    fail::cfg("snapshot::queue_overflow", "return").unwrap();
    site.write("d/b", "2");
    let captured = site.capture();
    assert_eq!((captured.mode, captured.journal), (CaptureMode::Walk, JournalState::Overflow));
    site.assert_equals_walk(&captured, "overflow");
    scenario.teardown();
    // The failpoint may have struck the new watch too; then it was renewed once more.
    site.capture();
    site.write("d/e/c", "3");
    site.capture_by_journal("and on");
}

#[test]
fn watch_limit_makes_captures_walk_and_report_it() {
    let site = JournalFixture::without_journal();
    for index in 0..10 {
        site.write(&format!("d{index}/a"), "1");
    }
    let scenario = fail::FailScenario::setup();
    fail::cfg("snapshot::watch_limit", "5*off->return").unwrap();
    site.store.journal().start();
    for round in 0..3 {
        site.write("d3/a", &format!("{round}"));
        let captured = site.capture();
        assert_eq!(
            (captured.mode, captured.journal),
            (CaptureMode::Walk, JournalState::WatchLimit)
        );
        site.assert_equals_walk(&captured, "limit");
    }
    assert_eq!(site.store.journal().status().watched, 0);
    scenario.teardown();
    assert_eq!(site.store.journal().start().state, JournalState::Starting);
    site.capture();
    site.write("d3/a", "again");
    site.capture_by_journal("and on");
}

/// What a failed capture read is in no pack; the next one must not take it for stored.
#[test]
fn failed_capture_is_followed_by_full_walk_without_loss() {
    let site = JournalFixture::new();
    site.write("d/a", "1");
    site.capture_by_journal("before");
    let scenario = fail::FailScenario::setup();
    for point in ["snapshot::walked", "snapshot::pack_synced", "snapshot::ref_synced"] {
        fail::cfg(point, "return").unwrap();
        site.write("d/b", point);
        site.write(&format!("new {point}/c"), point);
        assert!(site.store.capture(&PinGroup::new("test"), NOW).is_err(), "{point}");
        fail::cfg(point, "off").unwrap();
        let captured = site.capture();
        assert_eq!(
            (captured.mode, captured.journal),
            (CaptureMode::Walk, JournalState::On),
            "{point}"
        );
        site.assert_equals_walk(&captured, point);
        site.fsck();
        site.write("d/b", "and on");
        site.capture_by_journal(point);
    }
    scenario.teardown();
}

#[test]
fn replaced_root_is_an_error_and_returned_root_is_walked() {
    let site = JournalFixture::new();
    site.write("a", "1");
    site.capture_by_journal("before");
    let away = site.outside("work");
    fs_err::rename(site.root(), &away).unwrap();
    fs_err::create_dir(site.root()).unwrap();
    assert!(site.store.capture(&PinGroup::new("test"), NOW).is_err());
    fs_err::remove_dir(site.root()).unwrap();
    fs_err::write(away.join("b"), "written while away").unwrap();
    fs_err::rename(&away, site.root()).unwrap();

    let captured = site.capture();
    assert_eq!(captured.mode, CaptureMode::Walk);
    site.assert_equals_walk(&captured, "back");
    site.write("c", "3");
    site.capture_by_journal("and on");
}

/// A name outside that was made after the capture: neither it nor the write through it is reported.
/// Proves R8.
#[test]
fn audit_finds_unreported_change_and_distrusts_journal() {
    let site = JournalFixture::new();
    site.write("a", "1");
    site.write("b", "1");
    site.capture_by_journal("before");
    assert!(site.store.journal().audit(NOW).unwrap().missed.is_empty());
    fs_err::hard_link(site.at("a"), site.outside("a")).unwrap();
    fs_err::write(site.outside("a"), "changed unseen").unwrap();
    site.write("b", "not yet told, but noted");

    let audit = site.store.journal().audit(NOW).unwrap();

    assert_eq!(audit.missed, ["a".parse().unwrap()]);
    let status = site.store.journal().status();
    assert_eq!((status.state, status.missed), (JournalState::Distrusted, 1));
    assert_eq!(site.store.journal().start().state, JournalState::Distrusted);
    let captured = site.capture();
    assert_eq!((captured.mode, captured.journal), (CaptureMode::Walk, JournalState::Distrusted));
    site.assert_equals_walk(&captured, "walked");
}

#[test]
fn audit_before_journal_start_compares_nothing() {
    let site = JournalFixture::without_journal();
    site.write("a", "1");
    site.capture();
    site.write("a", "2");
    assert_eq!(site.store.journal().audit(NOW).unwrap().files, 0);
    site.store.journal().start();
    assert_eq!(site.store.journal().audit(NOW).unwrap().files, 0);
    assert_eq!(site.store.journal().status().state, JournalState::Starting);
}

/// Proves R8.
#[test]
fn audit_is_due_after_ten_minutes_of_captures() {
    let site = JournalFixture::new();
    let minutes = |count: i64| NOW.plus(count * 60_000);
    assert!(!site.store.journal().is_audit_due(minutes(11)), "nothing relied on the journal");
    site.capture_by_journal("activity");
    assert!(!site.store.journal().is_audit_due(minutes(9)));
    assert!(site.store.journal().is_audit_due(minutes(10)));
    site.store.journal().audit(minutes(10)).unwrap();
    assert!(!site.store.journal().is_audit_due(minutes(30)));
    assert_eq!(site.store.journal().status().audits, 1);
}

/// The stat of a file changes without its bytes when it gets a second name: that is no miss.
#[test]
fn audit_during_concurrent_writes_reports_no_misses() {
    let site = JournalFixture::new();
    site.write("linked", "same");
    site.capture_by_journal("before");
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
            let audit = site.store.journal().audit(NOW).unwrap();
            assert!(audit.missed.is_empty(), "{:?}", audit.missed);
            site.capture();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    site.capture_by_journal("after");
}
