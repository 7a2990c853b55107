//! Backups of a live store: one moment, checked, complete, and a store by themselves.

mod support;

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use support::{NOW, ctx, log, open, projections, session, sid, text, user, with_sessions, write};
use turnstone_store::{DataLayout, StoreError, diagnose};

#[test]
fn backup_opens_as_a_complete_store() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    write(&store, |tx| {
        tx.messages().put(&user("ses_a", "msg_a", 1))?;
        tx.messages().put_part(&text("ses_a", "msg_a", "prt_a", &"big ".repeat(100_000)))
    })
    .expect("written");
    let target = dir.path().join("backup/monday");

    let report = store.maintenance().back_up(&ctx(), &target).expect("backed up");

    assert_eq!((report.values, report.value_bytes), (1, 400_000));
    assert_eq!((report.events, report.missing.len()), (4, 0));
    assert_eq!(report.path, target);
    assert_eq!(fs_err::metadata(&target).expect("there").mode() & 0o777, 0o700);
    assert_eq!(diagnose(&DataLayout::new(&target), NOW).worst().map(|s| s.as_str()), Some("note"));
    let copy = open(&target);
    assert_eq!(log(&copy), log(&store));
    assert_eq!(projections(&target), projections(dir.path()));
    write(&copy, |tx| tx.sessions().create(&session("ses_new"))).expect("the copy takes writes");
    assert!(store.read(&ctx(), |r| r.sessions().find(&sid("ses_new"))).expect("reads").is_none());
}

#[test]
fn backup_under_load_is_a_consistent_snapshot() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let other = open(dir.path());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (who, store) in [("a", &store), ("b", &other)] {
            let stop = &stop;
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let m = format!("msg_{who}_{n}");
                    let body = format!("{n}").repeat(n % 700);
                    write(store, move |tx| {
                        tx.messages().put(&user("ses_a", &m, n as i64))?;
                        tx.messages().put_part(&text("ses_a", &m, &m.replace("msg", "prt"), &body))
                    })
                    .expect("written");
                }
            });
        }
        for round in 0..4 {
            std::thread::sleep(std::time::Duration::from_millis(40));
            let target = dir.path().join(format!("backup/{round}"));
            let report = store.maintenance().back_up(&ctx(), &target).expect("backed up");
            let seen = diagnose(&DataLayout::new(&target), NOW);
            assert!(seen.is_sound(), "{:?}", seen.findings);
            assert_eq!(seen.events, report.events);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn backup_refuses_to_overwrite() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let target = tempfile::tempdir().expect("temp dir");
    fs_err::write(target.path().join("mine"), "x").expect("written");
    let refused = store.maintenance().back_up(&ctx(), target.path()).expect_err("refused");
    assert!(matches!(refused, StoreError::Invalid(_)), "{refused}");
    let file =
        store.maintenance().back_up(&ctx(), &target.path().join("mine")).expect_err("refused");
    assert!(matches!(file, StoreError::Invalid(_)), "{file}");
    let left: Vec<_> = fs_err::read_dir(target.path()).expect("lists").collect();
    assert_eq!(left.len(), 1, "nothing half-made is left: {left:?}");
    let empty = tempfile::tempdir().expect("temp dir");
    store.maintenance().back_up(&ctx(), empty.path()).expect("an empty directory is fine");
}

#[test]
fn backup_reports_missing_blob_and_saves_the_rest() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    write(&store, |tx| {
        tx.messages().put(&user("ses_a", "msg_a", 1))?;
        tx.messages().put_part(&text("ses_a", "msg_a", "prt_a", &"big ".repeat(100_000)))
    })
    .expect("written");
    fs_err::remove_dir_all(dir.path().join("blob")).expect("removed");
    fs_err::create_dir(dir.path().join("blob")).expect("made");
    let report =
        store.maintenance().back_up(&ctx(), &dir.path().join("backup/x")).expect("backed up");
    assert_eq!(report.missing.len(), 1);
    let copy = open(&dir.path().join("backup/x"));
    assert_eq!(copy.read(&ctx(), |r| r.sessions().get(&sid("ses_a"))).expect("reads").title, "T");
}
