//! A disk without a free byte: everything stored can be read, and writing works again once there is
//! room, in the same process.

use std::path::Path;
use std::time::Duration;

use crate::ledger::{Fallible, context, ledger, open, read_log};
use turnstone_core::model::{Project, SessionStatus};
use turnstone_store::{DataLayout, SessionFilter, Store, StoreError, diagnose};
use turnstone_testkit::crash::{KillTrigger, KillableProgram};
use turnstone_testkit::small_disk::SmallDisk;

const DISK_KIB: u64 = 4096;

/// Fills a new store on a small disk with sessions.
fn loaded_disk() -> Fallible<Option<SmallDisk>> {
    let Some(disk) = SmallDisk::mount(DISK_KIB)? else { return Ok(None) };
    let loaded = ledger(disk.path(), &["load", "1", "2", "1"])?.output()?;
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    Ok(Some(disk))
}

fn put_project(store: &Store) -> Result<(), StoreError> {
    let project: Project = serde_json::from_value(serde_json::json!({
        "id": "late", "worktree": "/home/ada/late", "time": {"created": 1, "updated": 1}}))?;
    let ctx = context().map_err(|error| StoreError::Invalid(error.to_string()))?;
    store.write(&ctx, move |tx| tx.projects().put(&project)).wait().map(drop)
}

fn assert_readable(store: &Store, events: usize) -> Fallible {
    let page =
        store.read(&context()?, |r| r.sessions().list(&SessionFilter::default(), None, 10))?;
    assert!(!page.items.is_empty());
    assert_eq!(read_log(store)?.cursors.len(), events);
    Ok(())
}

fn count_events(dir: &Path) -> Fallible<usize> {
    Ok(read_log(&open(dir)?)?.cursors.len())
}

#[test]
fn full_disk_can_be_read_and_is_written_once_there_is_room() -> Fallible {
    let Some(disk) = loaded_disk()? else { return Ok(()) };
    let events = count_events(disk.path())?;
    disk.fill()?;

    let store = open(disk.path())?;

    assert_readable(&store, events)?;
    let full = put_project(&store).expect_err("the disk is full");
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    assert_readable(&store, events)?;
    assert!(diagnose(&DataLayout::new(disk.path()), context()?.now).is_sound());

    disk.free()?;
    put_project(&store)?;
    assert_readable(&store, events + 1)?;
    drop(store);
    assert_eq!(count_events(disk.path())?, events + 1);
    Ok(())
}

#[test]
fn two_processes_read_a_full_disk() -> Fallible {
    let Some(disk) = loaded_disk()? else { return Ok(()) };
    let events = count_events(disk.path())?;
    disk.fill()?;
    let (one, other) = (open(disk.path())?, open(disk.path())?);
    for _ in 0..3 {
        assert_readable(&one, events)?;
        assert_readable(&other, events)?;
    }
    let last = (events - 1).to_string();
    let tail = ledger(disk.path(), &["tail", &last])?.output()?;
    assert!(tail.status.success(), "{}", String::from_utf8_lossy(&tail.stderr));
    Ok(())
}

/// The killed process leaves a write-ahead log with commits in it, and a turn that runs.
#[test]
fn full_disk_with_turn_of_dead_process_can_be_read() -> Fallible {
    for keep_index in [true, false] {
        let Some(disk) = SmallDisk::mount(DISK_KIB)? else { return Ok(()) };
        let mut command = ledger(disk.path(), &["load", "1", "1", "100000"])?;
        let writer = KillableProgram::start(&mut command)?;
        writer.kill_on(KillTrigger::Lines(5), Duration::from_secs(60))?;
        assert!(fs_err::metadata(disk.path().join("turnstone.db-wal"))?.len() > 0);
        if !keep_index {
            fs_err::remove_file(disk.path().join("turnstone.db-shm"))?;
        }
        disk.fill()?;
        if !keep_index {
            // Nothing that SQLite could shorten and then use.
            assert!(!disk.path().join("turnstone.db-shm").exists());
        }

        let store = open(disk.path())?;

        let ctx = context()?;
        let page = store.read(&ctx, |r| r.sessions().list(&SessionFilter::default(), None, 9))?;
        let id = page.items.first().ok_or("no session")?.session.id.clone();
        let status = store.read(&ctx, |r| r.sessions().status(&id))?;
        if !keep_index {
            assert_eq!(status, SessionStatus::Busy, "nothing can be recorded yet");
        }
        disk.free()?;
        put_project(&store)?;
        let status = store.read(&ctx, |r| r.sessions().status(&id))?;
        assert_eq!(status, SessionStatus::Idle, "the turn ends once it can be recorded");
    }
    Ok(())
}
