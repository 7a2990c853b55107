//! SQLite through the recorder: what the store relies on, and proof that the check can fail.

use std::{error::Error, path::Path, process::Command};

use rusqlite::Connection;
use turnstone_testkit::{
    fault::FaultPlan,
    fixture::TempData,
    powerloss::{Policy, Recorder, Recording},
};

type TestResult = Result<(), Box<dyn Error>>;

fn probe(data: &TempData, rows: usize, synchronous: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testkit-probe"));
    command.arg(data.path()).arg(format!("sqlite:db:{rows}:{synchronous}"));
    command
}

fn record(rows: usize, synchronous: &str) -> Result<Recording, Box<dyn Error>> {
    let data = TempData::new()?;
    let recording = Recorder::new(data.path()).record(&probe(&data, rows, synchronous))?;
    assert!(recording.status().success(), "{}", recording.stderr());
    assert_eq!(recording.acknowledged(&recording.end()).len(), rows);
    Ok(recording)
}

/// An intact database with at least every acknowledged row.
fn intact_and_complete(image: &Path, acknowledged: &[String]) -> Result<(), Box<dyn Error>> {
    if image.join("db-shm").exists() {
        return Err("the shared memory file is part of the image".into());
    }
    let db = Connection::open(image.join("db"))?;
    // The image is thrown away: its recovery need not last.
    db.pragma_update(None, "synchronous", "OFF")?;
    let state: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if state != "ok" {
        return Err(state.into());
    }
    let wanted = acknowledged.len() as i64;
    if wanted == 0 {
        return Ok(());
    }
    let rows: i64 = db.query_row("SELECT count(*) FROM item", [], |row| row.get(0))?;
    if rows < wanted {
        return Err(format!("{wanted} rows acknowledged and {rows} there").into());
    }
    Ok(())
}

#[test]
fn sqlite_in_wal_and_full_keeps_every_acknowledged_row_at_every_point() -> TestResult {
    let recording = record(60, "FULL")?;
    let points = recording.points();
    assert!(points.len() > 120);
    for policy in [Policy::STRICT, Policy::torn(1), Policy::torn(2), Policy::STRICT.ordered()] {
        let losses = recording.losses(&points, policy, intact_and_complete)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    Ok(())
}

#[test]
fn sqlite_that_was_closed_and_opened_again_keeps_every_acknowledged_row() -> TestResult {
    let data = TempData::new()?;
    let mut command = probe(&data, 15, "FULL");
    command.arg("sqlite:db:15:FULL");
    let recording = Recorder::new(data.path()).record(&command)?;
    assert_eq!(recording.acknowledged(&recording.end()).len(), 30);
    for policy in [Policy::STRICT, Policy::torn(3), Policy::torn(4), Policy::torn(5).ordered()] {
        let losses = recording.losses(&recording.points(), policy, intact_and_complete)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    Ok(())
}

#[test]
fn sqlite_with_every_sync_ignored_is_found_to_lose_rows() -> TestResult {
    let recording = record(20, "FULL")?;
    let policy = Policy::STRICT.ignoring_fsync();
    let losses = recording.losses(&recording.points(), policy, intact_and_complete)?;
    assert!(!losses.is_empty());
    Ok(())
}

#[test]
fn sqlite_with_fsync_stubbed_out_is_found_to_lose_rows() -> TestResult {
    let data = TempData::new()?;
    let recorder = Recorder::new(data.path()).faults(FaultPlan::stub_fsync());
    let recording = recorder.record(&probe(&data, 20, "FULL"))?;
    assert_eq!(recording.acknowledged(&recording.end()).len(), 20);
    let losses = recording.losses(&recording.points(), Policy::STRICT, intact_and_complete)?;
    assert!(!losses.is_empty());
    Ok(())
}

#[test]
fn sqlite_with_synchronous_normal_is_found_to_lose_rows() -> TestResult {
    let recording = record(20, "NORMAL")?;
    let losses = recording.losses(&recording.points(), Policy::STRICT, intact_and_complete)?;
    assert!(!losses.is_empty());
    Ok(())
}

#[test]
fn a_thousand_commits_survive_two_hundred_power_cuts() -> TestResult {
    let recording = record(1000, "FULL")?;
    for (policy, seed) in [(Policy::STRICT, 1), (Policy::torn(7), 2)] {
        let points = recording.sample(100, seed);
        assert_eq!(points.len(), 100);
        let losses = recording.losses(&points, policy, intact_and_complete)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    Ok(())
}
