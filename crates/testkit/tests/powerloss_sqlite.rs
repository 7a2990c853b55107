//! SQLite through the recorder: what the store relies on, and proof that the check can fail.

use std::{error::Error, path::Path, process::Command};

use rusqlite::Connection;
use turnstone_testkit::{
    fault::FaultPlan,
    fixture::TempDataDir,
    powerloss::{PowerCutPolicy, Recorder, Recording},
};

type TestResult = Result<(), Box<dyn Error>>;

fn probe_command(data: &TempDataDir, rows: usize, synchronous: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testkit-probe"));
    command.arg(data.path()).arg(format!("sqlite:db:{rows}:{synchronous}"));
    command
}

fn record(rows: usize, synchronous: &str) -> Result<Recording, Box<dyn Error>> {
    let data = TempDataDir::new()?;
    let recording = Recorder::new(data.path()).record(&probe_command(&data, rows, synchronous))?;
    assert!(recording.status().success(), "{}", recording.stderr());
    assert_eq!(recording.acknowledged(&recording.end()).len(), rows);
    Ok(recording)
}

/// An intact database with at least every acknowledged row.
fn check_database(image: &Path, acknowledged: &[String]) -> Result<(), Box<dyn Error>> {
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
fn sqlite_wal_full_keeps_acknowledged_rows_at_every_cut() -> TestResult {
    let recording = record(60, "FULL")?;
    let points = recording.cut_points();
    assert!(points.len() > 120);
    for policy in [
        PowerCutPolicy::STRICT,
        PowerCutPolicy::torn(1),
        PowerCutPolicy::torn(2),
        PowerCutPolicy::STRICT.ordered(),
    ] {
        let losses = recording.find_losses(&points, policy, check_database)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    Ok(())
}

#[test]
fn reopened_sqlite_keeps_acknowledged_rows() -> TestResult {
    let data = TempDataDir::new()?;
    let mut command = probe_command(&data, 15, "FULL");
    command.arg("sqlite:db:15:FULL");
    let recording = Recorder::new(data.path()).record(&command)?;
    assert_eq!(recording.acknowledged(&recording.end()).len(), 30);
    for policy in [
        PowerCutPolicy::STRICT,
        PowerCutPolicy::torn(3),
        PowerCutPolicy::torn(4),
        PowerCutPolicy::torn(5).ordered(),
    ] {
        let losses = recording.find_losses(&recording.cut_points(), policy, check_database)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    Ok(())
}

#[test]
fn ignoring_syncs_is_detected_as_row_loss() -> TestResult {
    let recording = record(20, "FULL")?;
    let policy = PowerCutPolicy::STRICT.ignoring_fsync();
    let losses = recording.find_losses(&recording.cut_points(), policy, check_database)?;
    assert!(!losses.is_empty());
    Ok(())
}

#[test]
fn stubbed_fsync_is_detected_as_row_loss() -> TestResult {
    let data = TempDataDir::new()?;
    let recorder = Recorder::new(data.path()).faults(FaultPlan::stub_fsync());
    let recording = recorder.record(&probe_command(&data, 20, "FULL"))?;
    assert_eq!(recording.acknowledged(&recording.end()).len(), 20);
    let losses =
        recording.find_losses(&recording.cut_points(), PowerCutPolicy::STRICT, check_database)?;
    assert!(!losses.is_empty());
    Ok(())
}

#[test]
fn synchronous_normal_is_detected_as_row_loss() -> TestResult {
    let recording = record(20, "NORMAL")?;
    let losses =
        recording.find_losses(&recording.cut_points(), PowerCutPolicy::STRICT, check_database)?;
    assert!(!losses.is_empty());
    Ok(())
}

#[test]
fn a_thousand_commits_survive_two_hundred_power_cuts() -> TestResult {
    let recording = record(1000, "FULL")?;
    for (policy, seed) in [(PowerCutPolicy::STRICT, 1), (PowerCutPolicy::torn(7), 2)] {
        let points = recording.sample_points(100, seed);
        assert_eq!(points.len(), 100);
        let losses = recording.find_losses(&points, policy, check_database)?;
        assert!(losses.is_empty(), "{}", losses[0]);
    }
    Ok(())
}
